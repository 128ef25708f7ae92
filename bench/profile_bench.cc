// What speakers' profiles cost while scoring: a batch in which every row has a profile of its own beside the same batch
// without, one core. LHUC behind every hidden layer, and a transform of the features. Aim: 2 % at most.
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
constexpr int kRounds = 21;
constexpr int kBatch = 32;

nn::Model MakeModel(int hidden, int layers, int pdfs) {
  nn::Model model;
  model.feature_dim = kFeatures;
  model.left_context = model.right_context = kContext;
  model.network = nn::Network(
      Config::Parse(
          fmt::format("layer = [{{type = 'repeat', times = {}, layers = [{{type = 'affine', dim = {}}}, {{type "
                      "= 'relu'}}]}}, {{type = 'affine'}}]",
                      layers, hidden),
          "bench"),
      kFeatures * (2 * kContext + 1), pdfs, 1);
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
  constexpr int kTimes = 20;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) plan.Run(kBatch, memory, out, profiles);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTimes;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(int hidden, int layers, int pdfs, const char* precision) {
  infer::NnetScorerOptions plain;
  plain.precision = precision;
  plain.prior_scale = 0;
  infer::NnetScorerOptions adaptable = plain;
  adaptable.adaptable = true;
  const infer::NnetModel without(MakeModel(hidden, layers, pdfs), plain);
  const infer::NnetModel with(MakeModel(hidden, layers, pdfs), adaptable);
  std::vector<std::shared_ptr<const infer::BoundProfile>> speakers;
  std::vector<const infer::BoundProfile*> rows;
  for (int r = 0; r < kBatch; ++r) {
    speakers.push_back(with.Bind(MakeProfile(with, hidden, layers, static_cast<uint64_t>(r))));
    rows.push_back(speakers.back().get());
  }
  infer::PlanMemory a(without.plan(), kBatch), b(with.plan(), kBatch);
  Rng rng(1);
  for (int r = 0; r < kBatch; ++r) {
    for (int c = 0; c < a.input().cols(); ++c) a.input()(r, c) = b.input()(r, c) = static_cast<float>(rng.Normal());
  }
  Matrix out(kBatch, pdfs);
  std::vector<double> plain_seconds, profile_seconds;
  for (int i = 0; i < kRounds; ++i) {
    plain_seconds.push_back(Seconds(without.plan(), a, out, {}));
    profile_seconds.push_back(Seconds(with.plan(), b, out, rows));
  }
  const double p = Median(plain_seconds), q = Median(profile_seconds);
  fmt::print("{}x{}-{} {}: {:.1f} us per batch of {} without, {:.1f} us with a profile per row: {:+.2f} %\n", layers,
             hidden, pdfs, precision, 1e6 * p, kBatch, 1e6 * q, 100 * (q / p - 1));
}

}  // namespace

int main() {
  omp_set_num_threads(1);
  for (const char* precision : {"fp32", "int8"}) {
    Compare(448, 4, 1226, precision);
    Compare(2048, 5, 8192, precision);
  }
}
