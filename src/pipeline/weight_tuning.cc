#include "pipeline/weight_tuning.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/cancel.h"
#include "base/log.h"
#include "base/median.h"
#include "base/thread_pool.h"

namespace antiphon::pipeline {
namespace {

// Posterior probabilities are too sure of themselves: sequences of frames are scored as if they were independent.
constexpr std::array kRiskScales = {0.5, 0.7, 1.0};

}  // namespace

decode::Lattice WeightTuning::Needed(const decode::Lattice& lattice) {
  decode::Lattice needed{.states = lattice.states, .alignments = {}};
  for (decode::LatticeState& state : needed.states) {
    state.final_alignment = {};
    for (decode::LatticeArc& arc : state.arcs) arc.alignment = {};
  }
  return needed;
}

std::vector<int64_t> WeightTuning::Errors(const std::string& utt_id, std::span<const decode::Lattice> pieces) const {
  return search_.ErrorsOfPieces(pieces, references_.Ids(utt_id));
}

void WeightTuning::Add(const std::string& utt_id, std::span<const int64_t> errors,
                       std::vector<decode::Lattice>&& pieces, double contrast) {
  search_.Add(errors);
  utterances_.push_back(utt_id);
  lattices_.push_back(std::move(pieces));
  if (!std::isnan(contrast)) contrasts_.push_back(contrast);
}

double WeightTuning::UsualContrast() const {
  return contrasts_.empty() ? 0.0 : std::round(Median(contrasts_) * 1000) / 1000;
}

int64_t WeightTuning::ErrorsWith(const ChosenWeights& weights, int num_threads) const {
  int64_t errors = 0;
  ParallelInOrder<int64_t>(
      utterances_.size(), num_threads,
      [&](size_t i) {
        ThrowIfCancelled("choosing weights");
        return decode::WordErrors(lattices_[i], references_.Ids(utterances_[i]), weights.weights());
      },
      [&](size_t, int64_t of_utterance) { errors += of_utterance; });
  return errors;
}

TunedWeights WeightTuning::Choose(const std::filesystem::path& out, int num_threads) {
  while (search_.Extend()) {
    ParallelInOrder<std::vector<int64_t>>(
        utterances_.size(), num_threads,
        [&](size_t i) {
          ThrowIfCancelled("choosing weights");
          return Errors(utterances_[i], lattices_[i]);
        },
        [&](size_t, std::vector<int64_t>&& errors) { search_.Add(errors); });
  }
  const auto& best = search_.Best();
  TunedWeights tuned{.weights = {best.lm_weight, best.word_penalty}, .file = out / "weights.toml"};
  int64_t least = best.errors;
  for (const double risk_scale : kRiskScales) {
    const ChosenWeights weights{best.lm_weight, best.word_penalty, risk_scale};
    if (const int64_t errors = ErrorsWith(weights, num_threads); errors < least) {
      least = errors;
      tuned.weights = weights;
    }
  }
  tuned.weights.contrast = UsualContrast();
  lattices_.clear();
  int64_t words = 0;
  for (const std::string& utt_id : utterances_) words += static_cast<int64_t>(references_.Ids(utt_id).size());
  if (words > 0) tuned.error_rate = static_cast<double>(least) / static_cast<double>(words);
  WriteChosenWeights(tuned.file, tuned.weights,
                     fmt::format("chosen on {}: WER {:.2f} %", references_.name(), 100 * tuned.error_rate));
  if (const std::string warning = search_.EdgeWarning(); !warning.empty()) log::Warn("{}", warning);
  return tuned;
}

}  // namespace antiphon::pipeline
