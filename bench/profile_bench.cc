// What speakers' profiles cost while scoring, one core. First batches of one, eight and as many speakers as rows beside
// the same batch without profiles: LHUC behind every hidden layer. Then whole utterances of one speaker by each method:
// LHUC, LIN or fMLLR (one matrix on each frame's features), LHN (a matrix behind a hidden layer). In 8 bits with ranges
// of the layers' inputs that each row has of its own, and with ranges that calibration found. Aim: 2 % at most.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <tuple>

#include "base/compute_threads.h"
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
constexpr int kUtterance = 320;

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

// A matrix near the identity, with an offset.
nn::SpeakerProfile::Part MakeMatrix(const std::string& after, int dim, Rng& rng) {
  nn::SpeakerProfile::Part part{after, {}, Matrix(dim, dim), Matrix(1, dim)};
  for (int r = 0; r < dim; ++r) {
    for (float& a : part.matrix.Row(r)) a = static_cast<float>(0.01 * rng.Normal());
    part.matrix(r, r) += 1;
    part.offset(0, r) = static_cast<float>(0.1 * rng.Normal());
  }
  return part;
}

nn::SpeakerProfile MakeProfile(const infer::NnetModel& model, const std::string& method, int hidden, int layers,
                               uint64_t seed) {
  Rng rng(seed);
  nn::SpeakerProfile profile;
  profile.model = model.id();
  if (method == "lin") profile.parts.push_back(MakeMatrix("", kFeatures, rng));
  if (method == "lhn") profile.parts.push_back(MakeMatrix("relu1", hidden, rng));
  for (int l = 1; l <= layers && method == "lhuc"; ++l) {
    nn::SpeakerProfile::Part part{fmt::format("relu{}", l), Matrix(1, hidden), {}, {}};
    for (float& a : part.scale.Row(0)) a = static_cast<float>(2 * rng.Uniform());
    profile.parts.push_back(std::move(part));
  }
  return profile;
}

template <class F>
double Seconds(const F& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) work();
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

// A few times the one and a few times the other by turns: what a neighbour or the clock does to one, it does to the
// other.
template <class Plain, class Profiled>
Cost Measure(const Plain& plain, const Profiled& profiled) {
  std::vector<double> without, with;
  double total = 0;
  while (total < kSecondsEach) {
    without.push_back(Seconds(plain));
    with.push_back(Seconds(profiled));
    total += without.back() + with.back();
  }
  const double p = Median(without);
  return {p / kTimes, Median(with) / p};
}

infer::NnetScorerOptions Options(const char* precision) {
  infer::NnetScorerOptions options;
  options.precision = precision;
  options.prior_scale = 0;
  options.adaptable = true;
  options.block_frames = kBatch;
  return options;
}

void PrintRatios(std::vector<double> ratios) {
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  fmt::print(" {:+.2f} % ({:+.2f} to {:+.2f});", 100 * (Median(ratios) - 1), 100 * (*least - 1), 100 * (*most - 1));
}

// The same plan with and without profiles, as two plans lie elsewhere in memory, which alone makes them differ by 2 %;
// for the same reason several plans, of which the median counts.
void CompareBatches(int hidden, int layers, int pdfs, const char* precision, bool calibrated) {
  const infer::NnetScorerOptions options = Options(precision);
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
        profiles.push_back(model.Bind(MakeProfile(model, "lhuc", hidden, layers, static_cast<uint64_t>(s))));
      }
      std::vector<const infer::BoundProfile*> rows;
      for (int r = 0; r < kBatch; ++r) rows.push_back(profiles[static_cast<size_t>(r * kSpeakers[k] / kBatch)].get());
      const infer::Plan& plan = model.plan();
      const Cost cost =
          Measure([&] { plan.Run(kBatch, memory, out, {}); }, [&] { plan.Run(kBatch, memory, out, rows); });
      without.push_back(cost.without);
      ratios[k].push_back(cost.ratio);
    }
  }
  fmt::print("{}x{}-{} {}{}: {:.1f} us per batch of {} without;", layers, hidden, pdfs, precision,
             calibrated ? ", calibrated" : "", 1e6 * Median(without), kBatch);
  for (size_t k = 0; k < std::size(kSpeakers); ++k) {
    fmt::print(" {} speaker(s)", kSpeakers[k]);
    PrintRatios(ratios[k]);
  }
  fmt::print("\n");
}

// An utterance from features to scores.
void CompareMethods(int hidden, int layers, int pdfs, const char* precision, bool calibrated) {
  Rng rng(1);
  Matrix frames(kUtterance, kFeatures);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(rng.Normal());
  const char* kMethods[] = {"lhuc", "lin", "lhn"};
  std::vector<double> ratios[std::size(kMethods)];
  std::vector<Matrix> between;
  for (int placement = 0; placement < kPlacements; ++placement) {
    between.emplace_back(1 + placement, 1000);
    const auto model =
        std::make_shared<const infer::NnetModel>(MakeModel(hidden, layers, pdfs, calibrated), Options(precision));
    const auto score = [&](std::shared_ptr<const infer::BoundProfile> profile) {
      infer::NnetScorer scorer(model, std::move(profile));
      scorer.Accept(frames);
      scorer.Finish();
      for (int t = 0; t < kUtterance; ++t) scorer.DenseFrame(t);
    };
    for (size_t k = 0; k < std::size(kMethods); ++k) {
      const auto profile = model->Bind(MakeProfile(*model, kMethods[k], hidden, layers, 1));
      ratios[k].push_back(Measure([&] { score(nullptr); }, [&] { score(profile); }).ratio);
    }
  }
  fmt::print("{}x{}-{} {}{}, utterances of {} frames:", layers, hidden, pdfs, precision,
             calibrated ? ", calibrated" : "", kUtterance);
  for (size_t k = 0; k < std::size(kMethods); ++k) {
    fmt::print(" {}", kMethods[k]);
    PrintRatios(ratios[k]);
  }
  fmt::print("\n");
}

}  // namespace

// profile_bench [batches|methods]: one of the two, or both.
int main(int argc, char** argv) {
  const std::string_view only = argc > 1 ? argv[1] : "";
  SetComputeThreads(1);
  for (const auto& [precision, calibrated] : {std::pair("fp32", false), {"int8", false}, {"int8", true}}) {
    for (const auto& [hidden, layers, pdfs] : {std::tuple(448, 4, 1226), {2048, 5, 8192}}) {
      if (only != "methods") CompareBatches(hidden, layers, pdfs, precision, calibrated);
      if (only != "batches") CompareMethods(hidden, layers, pdfs, precision, calibrated);
    }
  }
}
