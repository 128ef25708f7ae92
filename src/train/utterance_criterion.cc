#include "train/utterance_criterion.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "base/score_source.h"

namespace antiphon::train {
namespace {

// As in decoding (infer/nnet_scorer.h).
std::vector<float> OffsetsFrom(std::span<const float> log_priors) {
  std::vector<float> offsets;
  for (const float p : log_priors) offsets.push_back(WasSeen(p) ? -p : kDisabledScore);
  return offsets;
}

}  // namespace

LatticeCriterion::LatticeCriterion(std::shared_ptr<const SequenceData> data, const hmm::HmmModel& hmm,
                                   std::span<const float> log_priors, const decode::SequenceCriterionOptions& options)
    : data_(std::move(data)), criterion_(decode::ClassesOf(hmm, options), options), offsets_(OffsetsFrom(log_priors)) {}

std::optional<double> LatticeCriterion::Loss(const std::string& utt_id, std::span<const int32_t>, MatrixView logits,
                                             MatrixView gradient) const {
  if (static_cast<size_t>(logits.cols()) != offsets_.size()) {
    Throw<ShapeError>("the network gives {} outputs, the priors are of {} pdf-ids", logits.cols(), offsets_.size());
  }
  const SequenceEntry entry = data_->Get(utt_id);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    std::ranges::transform(logits.Row(t), offsets_, logits.Row(t).begin(), std::plus());
  }
  return criterion_.Loss(entry.lattice, entry.reference, logits, gradient);
}

std::optional<double> LatticeFreeCriterion::Loss(const std::string& utt_id, std::span<const int32_t> pdf_ids,
                                                 MatrixView logits, MatrixView gradient) const {
  const std::optional<double> loss = decode::LatticeFreeLoss(graph_, pdf_ids, logits, options_, gradient);
  if (!loss) NoteLeftOut(utt_id);
  return loss;
}

size_t LatticeFreeCriterion::num_left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_.size();
}

// The first, the second, the fourth, the eighth … is told.
void LatticeFreeCriterion::NoteLeftOut(const std::string& utt_id) const {
  const std::lock_guard lock(mutex_);
  if (!left_out_.insert(utt_id).second || !std::has_single_bit(left_out_.size())) return;
  log::Warn(
      "utterance '{}' is left out of lf-mmi: the denominator graph has no path near its alignment, whose phones do not "
      "follow one another in the speech that the graph was made of ({} utterance(s) so far)",
      utt_id, left_out_.size());
}

}  // namespace antiphon::train
