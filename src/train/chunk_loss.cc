#include "train/chunk_loss.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "train/targets.h"

namespace antiphon::train {
namespace {

constexpr int kNumbersPerChunk = 4;

}  // namespace

ChunkLoss::ChunkLoss(std::shared_ptr<const data::FrameStore> store, std::shared_ptr<const chain::ChainData> data,
                     const chain::ChainLossOptions& options)
    : store_(std::move(store)), loss_(data, options), side_targets_{{{.task = "cross-entropy", .labels = {}}}} {
  for (const auto& utterance : store_->utterances()) references_.push_back(data->references.Find(utterance.utt_id));
}

void ChunkLoss::SetMinibatch(const data::Minibatch& minibatch) {
  chunks_.clear();
  utterances_.clear();
  if (minibatch.frame_ids.empty()) return;
  CHECK(minibatch.sequences != nullptr) << "single frames";
  const auto streams = static_cast<size_t>(minibatch.sequences->streams);
  const std::span<const int64_t> ids = minibatch.frame_ids;
  CHECK_EQ(ids.size() % streams, 0U);
  for (size_t s = 0; s < streams; ++s) {
    chain::ChainChunk& chunk = chunks_.emplace_back();
    for (size_t row = s; row < ids.size() && ids[row] >= 0; row += streams) ++chunk.times.num_outputs;
    utterances_.push_back(-1);
    if (chunk.times.num_outputs == 0) continue;
    const size_t u = UtteranceOfFrame(*store_, ids[s]);
    utterances_.back() = static_cast<int64_t>(u);
    chunk.utterance = references_[u];
    chunk.times.first_frame = static_cast<int>(ids[s] - store_->utterances()[u].first_frame);
    chunk.weight = minibatch.weights.empty() ? 1.0F : minibatch.weights[s];
    const int64_t last = ids[s + static_cast<size_t>(chunk.times.num_outputs - 1) * streams];
    if (last - ids[s] != int64_t{chunk.times.num_outputs - 1} * loss_.data().step) {
      Throw<InputError>("utterance '{}': {} outputs over {} frames, where the criterion needs one every {} frames",
                        store_->utterances()[u].utt_id, chunk.times.num_outputs, last - ids[s] + 1, loss_.data().step);
    }
  }
}

std::vector<int64_t> ChunkLoss::Rows() const {
  std::vector<int64_t> rows;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const chain::ChainChunk& chunk = chunks_[c];
    for (const int64_t number : {utterances_[c], int64_t{chunk.times.first_frame}, int64_t{chunk.times.num_outputs},
                                 int64_t{std::bit_cast<int32_t>(chunk.weight)}}) {
      rows.push_back(number);
    }
  }
  return rows;
}

std::vector<int64_t> ChunkLoss::RowsOfStreams(int first, int last, int streams) const {
  CHECK_EQ(static_cast<size_t>(streams), chunks_.size());
  const std::vector<int64_t> rows = Rows();
  return {rows.begin() + kNumbersPerChunk * first, rows.begin() + kNumbersPerChunk * last};
}

void ChunkLoss::SetRows(std::vector<int64_t> rows) {
  CHECK_EQ(rows.size() % kNumbersPerChunk, 0U);
  chunks_.clear();
  utterances_.clear();
  for (size_t i = 0; i < rows.size(); i += kNumbersPerChunk) {
    chain::ChainChunk& chunk = chunks_.emplace_back();
    utterances_.push_back(rows[i]);
    if (rows[i] >= 0) chunk.utterance = references_.at(static_cast<size_t>(rows[i]));
    chunk.times.first_frame = static_cast<int>(rows[i + 1]);
    chunk.times.num_outputs = static_cast<int>(rows[i + 2]);
    chunk.weight = std::bit_cast<float>(static_cast<int32_t>(rows[i + 3]));
  }
}

nn::LossResult ChunkLoss::Compute(ConstMatrixView outputs, const nn::LossTargets& targets, MatrixView derivative) {
  loss_.SetChunks(chunks_);
  const nn::LossResult result = loss_.Compute(outputs, targets, derivative);
  nn::SideTarget& branch = side_targets_.tasks.front();
  branch.shares = loss_.posteriors();
  branch.total_weight = targets.total_weight;
  return result;
}

}  // namespace antiphon::train
