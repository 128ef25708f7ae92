// The loss of chain training for a minibatch of chunks, as the trainer calls it.
//
// A branch of the network, a layer of type "side-task" whose task is "cross-entropy", learns the numerator's
// posteriors. Which outputs a row stands for follows from its frame id: stream s of a minibatch is a chunk of one
// utterance. Threads: one per object. Errors: InputError for a minibatch that is not made of chunks with the
// criterion's step.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "chain/chain_loss.h"
#include "train/sequence_loss.h"

namespace antiphon::train {

class ChunkLoss : public MinibatchLoss {
 public:
  ChunkLoss(std::shared_ptr<const data::FrameStore> store, std::shared_ptr<const chain::ChainData> data,
            const chain::ChainLossOptions& options);

  void SetMinibatch(const data::Minibatch& minibatch) override;
  nn::LossResult Compute(ConstMatrixView outputs, const nn::LossTargets& targets, MatrixView derivative) override;

  /// Four numbers for each chunk: utterance of the store (−1: none), first frame, outputs, bits of its weight.
  std::vector<int64_t> Rows() const override;
  std::vector<int64_t> RowsOfStreams(int first, int last, int streams) const override;
  void SetRows(std::vector<int64_t> rows) override;

  nn::SideTargets* side_targets() override { return &side_targets_; }

 private:
  std::shared_ptr<const data::FrameStore> store_;
  chain::ChainLoss loss_;
  std::vector<std::optional<size_t>> references_;  // by utterance of the store
  std::vector<chain::ChainChunk> chunks_;
  std::vector<int64_t> utterances_;  // of the store, by chunk; −1: an empty one
  nn::SideTargets side_targets_;
};

}  // namespace antiphon::train
