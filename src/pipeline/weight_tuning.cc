#include "pipeline/weight_tuning.h"

#include <fmt/format.h>

#include <utility>

#include "base/cancel.h"
#include "base/log.h"
#include "base/thread_pool.h"

namespace antiphon::pipeline {

decode::Lattice WeightTuning::Needed(const decode::Lattice& lattice) {
  decode::Lattice needed = lattice;
  needed.alignments = {};
  return needed;
}

std::vector<int64_t> WeightTuning::Errors(const std::string& utt_id, std::span<const decode::Lattice> pieces) const {
  return search_.ErrorsOfPieces(pieces, references_.Ids(utt_id));
}

void WeightTuning::Add(std::span<const int64_t> errors, std::vector<decode::Lattice>&& pieces) {
  search_.Add(errors);
  lattices_.push_back(std::move(pieces));
}

TunedWeights WeightTuning::Choose(const std::vector<std::string>& utterances, const std::filesystem::path& out,
                                  int num_threads) {
  while (search_.Extend()) {
    ParallelInOrder<std::vector<int64_t>>(
        utterances.size(), num_threads,
        [&](size_t i) {
          ThrowIfCancelled("choosing weights");
          return Errors(utterances[i], lattices_[i]);
        },
        [&](size_t, std::vector<int64_t>&& errors) { search_.Add(errors); });
  }
  lattices_.clear();
  const auto& best = search_.Best();
  int64_t words = 0;
  for (const std::string& utt_id : utterances) words += static_cast<int64_t>(references_.Ids(utt_id).size());
  TunedWeights tuned{.weights = {best.lm_weight, best.word_penalty}, .file = out / "weights.toml"};
  if (words > 0) tuned.error_rate = static_cast<double>(best.errors) / static_cast<double>(words);
  WriteChosenWeights(tuned.file, tuned.weights,
                     fmt::format("chosen on {}: WER {:.2f} %", references_.name(), 100 * tuned.error_rate));
  if (const std::string warning = search_.EdgeWarning(); !warning.empty()) log::Warn("{}", warning);
  return tuned;
}

}  // namespace antiphon::pipeline
