// What speakers' profiles cost while scoring: batches of one, eight and as many speakers as rows beside the same batch
// without profiles, one core. LHUC behind every hidden layer. In 8 bits with ranges of the layers' inputs that each row
// has of its own, and with ranges that calibration found. Aim: 2 % at most.
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "infer/nnet_scorer.h"

namespace {

using namespace antiphon;

constexpr int kFeatures = 40;
constexpr int kContext = 8;
constexpr int kPlacements = 5;
constexpr double kSecondsEach = 2;
constexpr int kTimes = 8;
constexpr int kBatch = 32;

nn::Model MakeModel(int hidden, int layers, int pdfs, bool calibrated) {
  nn::Model model;
  model.feature_dim = kFeatures;
  model.left_context = model.right_context = kContext;
  model.network = nn::Network(
      Config::Parse(
          fmt::format("layer = [{{type = 'repeat', times = {0}, layers = [{{type = '{2}', dim = {1}}}, {{type "
                      "= 'relu'}}]}}, {{type = '{2}'}}]",
                      layers, hidden, calibrated ? "quantized-affine" : "affine"),
          "bench"),
      kFeatures * (2 * kContext + 1), pdfs, 1);
  for (nn::Parameter* p : model.network.buffers()) {
    if (p->name.ends_with("input_scale")) p->value(0, 0) = 0.03F;
    if (p->name.ends_with("input_zero")) p->value(0, 0) = p->name.starts_with(model.network.layer_name(0)) ? 128 : 0;
  }
  return model;
}

nn::SpeakerProfile MakeProfile(const infer::NnetModel& model, int hidden, int layers, uint64_t seed) {
  Rng rng(seed);
  nn::SpeakerProfile profile;
  profile.model = model.id();
  for (int l = 1; l <= layers; ++l) {
    nn::SpeakerProfile::Part part{fmt::format("relu{}", l), Matrix(1, hidden), {}, {}};
    for (float& a : part.scale.Row(0)) a = static_cast<float>(2 * rng.Uniform());
    profile.parts.push_back(std::move(part));
  }
  return profile;
}

double Seconds(const infer::Plan& plan, infer::PlanMemory& memory, Matrix& out, infer::RowProfiles profiles) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) plan.Run(kBatch, memory, out, profiles);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Cost {
  double without = 0;
  double ratio = 0;
};

// A few batches with and a few without profiles by turns: what a neighbour or the clock does to one, it does to the
// other.
Cost Measure(const infer::Plan& plan, infer::PlanMemory& memory, Matrix& out, infer::RowProfiles profiles) {
  std::vector<double> without, with;
  double total = 0;
  while (total < kSecondsEach) {
    without.push_back(Seconds(plan, memory, out, {}));
    with.push_back(Seconds(plan, memory, out, profiles));
    total += without.back() + with.back();
  }
  const double p = Median(without);
  return {p / kTimes, Median(with) / p};
}

// The same plan with and without profiles, as two plans lie elsewhere in memory, which alone makes them differ by 2 %;
// for the same reason several plans, of which the median counts.
void Compare(int hidden, int layers, int pdfs, const char* precision, bool calibrated) {
  infer::NnetScorerOptions options;
  options.precision = precision;
  options.prior_scale = 0;
  options.adaptable = true;
  const int kSpeakers[] = {1, 8, kBatch};
  std::vector<double> without;
  std::vector<double> ratios[std::size(kSpeakers)];
  std::vector<Matrix> between;
  for (int placement = 0; placement < kPlacements; ++placement) {
    between.emplace_back(1 + placement, 1000);
    const infer::NnetModel model(MakeModel(hidden, layers, pdfs, calibrated), options);
    infer::PlanMemory memory(model.plan(), kBatch);
    Rng rng(1);
    for (int r = 0; r < kBatch; ++r) {
      for (float& x : memory.input().Row(r)) x = static_cast<float>(rng.Normal());
    }
    Matrix out(kBatch, pdfs);
    for (size_t k = 0; k < std::size(kSpeakers); ++k) {
      std::vector<std::shared_ptr<const infer::BoundProfile>> profiles;
      for (int s = 0; s < kSpeakers[k]; ++s) {
        profiles.push_back(model.Bind(MakeProfile(model, hidden, layers, static_cast<uint64_t>(s))));
      }
      std::vector<const infer::BoundProfile*> rows;
      for (int r = 0; r < kBatch; ++r) rows.push_back(profiles[static_cast<size_t>(r * kSpeakers[k] / kBatch)].get());
      const Cost cost = Measure(model.plan(), memory, out, rows);
      without.push_back(cost.without);
      ratios[k].push_back(cost.ratio);
    }
  }
  fmt::print("{}x{}-{} {}{}: {:.1f} us per batch of {} without;", layers, hidden, pdfs, precision,
             calibrated ? ", calibrated" : "", 1e6 * Median(without), kBatch);
  for (size_t k = 0; k < std::size(kSpeakers); ++k) {
    const auto [least, most] = std::minmax_element(ratios[k].begin(), ratios[k].end());
    fmt::print(" {} speaker(s) {:+.2f} % ({:+.2f} to {:+.2f});", kSpeakers[k], 100 * (Median(ratios[k]) - 1),
               100 * (*least - 1), 100 * (*most - 1));
  }
  fmt::print("\n");
}

}  // namespace

int main() {
  omp_set_num_threads(1);
  for (const auto& [precision, calibrated] : {std::pair("fp32", false), {"int8", false}, {"int8", true}}) {
    Compare(448, 4, 1226, precision, calibrated);
    Compare(2048, 5, 8192, precision, calibrated);
  }
}
