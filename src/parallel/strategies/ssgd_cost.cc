// Synchronous SGD, with gradients in full or in few bits, and with divided optimiser state (plan/synchronous.cc).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/codec.h"
#include "plan/cost_method.h"

namespace antiphon::parallel {
namespace {

using plan::CostLayer;
using plan::CostNetwork;
using plan::CostPlan;
using plan::CostResult;

constexpr double kOneBitSurcharge = 0.02;

class SsgdCost : public plan::CostMethod {
 public:
  plan::Played Play(const plan::Setting& setting) const override { return PlaySynchronous(setting); }
  void Check(const CostPlan& plan) const override {
    if (plan.divide.empty()) return;
    if (plan.codec == "one-bit") throw UsageError("divide goes with codecs that keep whole rows, not with one-bit");
    if (!plan.exchange.empty() && plan.exchange != "two-stage") {
      Throw<UsageError>("divide goes with exchange two-stage, not with {}", plan.exchange);
    }
    if (plan.divide == "gradients" && plan.accumulate > 1) {
      throw UsageError("accumulated gradients stay whole: divide = optimizer");
    }
  }
  // The gradient (of one layer, and the own part), what the codec keeps of it, and the widest layer on its way.
  double Copies(const CostNetwork& network, const CostPlan& plan) const override {
    if (plan.workers == 1 && plan.codec.empty() && plan.accumulate == 1) return 0;
    double widest = 0;
    for (const CostLayer& layer : network.layers) widest = std::max(widest, layer.weights);
    const auto codec =
        MakeCodec(Config::Parse(fmt::format("type = \"{}\"\n", plan.codec.empty() ? "fp32" : plan.codec), "plan"));
    const double layer = widest / network.weights();
    const double gradient = plan.divide == "gradients" ? 1.0 / plan.workers + layer : 1.0;
    return gradient + codec->num_planes() + codec->num_sum_planes() + layer;
  }
  double MemoryBytes(const CostNetwork& network, const CostPlan& plan) const override {
    const double elsewhere = plan.divide.empty() ? 0 : plan.optimizer_values * (1 - 1.0 / plan.workers);
    return CostMethod::MemoryBytes(network, plan) - elsewhere * 4 * network.weights();
  }

  std::vector<plan::PassesRule> PassesRules() const override {
    return {{"ssgd", "ssgd",
             "none up to 1024 frames per step of all workers, 20 % per doubling beyond; refused beyond 16,384",
             "here, after as many passes: +0.1 and -1.0 points of frame accuracy at 1024, -2.6 and -3.0 at 2048; Seide "
             "2014 saw no loss at 2880, and nearly none at 16 k, once training was under way on much more speech",
             "synchronous SGD"},
            {"one-bit", "ssgd, 1-bit", "as ssgd, and 2 %",
             "Seide 2014: no or nearly no loss; here −0.1 ± 0.3 points where plain ssgd had +0.1 ± 0.3. The "
             "surcharge is assumed",
             "synchronous SGD with codec one-bit"}};
  }
  std::string PassesKey(const CostPlan& plan) const override { return IsOneBit(plan) ? "one-bit" : "ssgd"; }
  double PassesFactor(const CostPlan& plan, const CostResult& result) const override {
    return CostMethod::PassesFactor(plan, result) * (IsOneBit(plan) ? 1 + kOneBitSurcharge : 1.0);
  }
  std::string TooFar(const CostPlan& plan, const CostResult&) const override {
    return plan::StepTooLarge(plan::StepFrames(plan, 1), plan.minibatch);
  }

  std::vector<CostPlan> Variants(const CostPlan& base, int, double codec_gb_s) const override {
    std::vector<CostPlan> plans;
    for (const int accumulate : {1, 4}) {
      for (const char* codec : {"", "bf16", "one-bit"}) {
        CostPlan plan = base;
        plan.codec = codec;
        plan.codec_gb_s = *codec == 0 ? 0 : codec_gb_s;
        plan.accumulate = accumulate;
        plans.push_back(plan);
      }
    }
    plans.push_back(base);
    plans.back().divide = "gradients";
    return plans;
  }
  std::string NameOf(const CostPlan& plan) const override {
    if (!plan.divide.empty()) return "ssgd, divided";
    if (plan.codec.empty()) return "ssgd";
    return fmt::format("ssgd, {}", IsOneBit(plan) ? "1-bit" : plan.codec);
  }
  int Effort(const CostPlan& plan) const override {
    if (!plan.divide.empty()) return 3;
    return plan.codec.empty() ? 1 : IsOneBit(plan) ? 4 : 2;
  }
  double CommonStep(const CostPlan& plan) const override { return plan::StepFrames(plan, 1); }
  std::string Details(const CostNetwork&, const CostPlan& plan) const override {
    return plan.accumulate > 1 ? fmt::format(", {} minibatches of a worker per step", plan.accumulate) : "";
  }
  std::string Keys(const CostNetwork&, const CostPlan& plan) const override {
    const std::string divide = plan.divide.empty() ? "" : fmt::format("divide = \"{}\"\n", plan.divide);
    return divide + (plan.accumulate > 1 ? fmt::format("accumulate = {}\n", plan.accumulate) : "");
  }

 private:
  static bool IsOneBit(const CostPlan& plan) { return plan.codec == "one-bit"; }
};

REGISTER_COMPONENT(plan::CostMethodRegistry, "ssgd", [] { return std::make_unique<SsgdCost>(); });

}  // namespace
}  // namespace antiphon::parallel
