#include "train/utterance_criterion.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
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

double LatticeCriterion::Loss(const std::string& utt_id, MatrixView logits, MatrixView gradient) const {
  if (static_cast<size_t>(logits.cols()) != offsets_.size()) {
    Throw<ShapeError>("the network gives {} outputs, the priors are of {} pdf-ids", logits.cols(), offsets_.size());
  }
  const SequenceEntry entry = data_->Get(utt_id);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    std::ranges::transform(logits.Row(t), offsets_, logits.Row(t).begin(), std::plus());
  }
  return criterion_.Loss(entry.lattice, entry.reference, logits, gradient);
}

}  // namespace antiphon::train
