// The loss of minibatches of whole utterances, by a criterion of each.
//
// With a cross-entropy weight h, the loss is (1 − h) times the criterion plus h times the cross-entropy against the
// store's alignment, which keeps the network from drifting where lattices are small (F-smoothing). Reported per frame;
// accuracy is that of frames against the store's alignment. Threads: one per object; utterances are spread over the
// caller's compute threads. The number of threads does not change the result. Errors: InputError naming the utterance,
// for a lattice that does not fit, or a minibatch that holds part of one. Source: Su, Li, Yu, Seide, Error back
// propagation for sequence training of context-dependent deep networks, ICASSP 2013, for the smoothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chain/chain_loss.h"
#include "data/minibatch_pool.h"
#include "nn/loss.h"
#include "nn/side_targets.h"
#include "train/utterance_criterion.h"

namespace antiphon::train {

struct SequenceOptions {
  std::string lattices;
  double cross_entropy_weight = 0.0;
  decode::SequenceCriterionOptions criterion;
  std::string chain_data;
  chain::ChainLossOptions chain;
  bool on() const { return criterion.criterion != "none"; }
  bool in_chunks() const { return criterion.criterion == "chain"; }
  template <class V>
  void Visit(V& v) {
    v("lattices", lattices, "folder that antiphon lattices made with the initial model");
    v("cross-entropy-weight", cross_entropy_weight, Range{0.0, 1.0},
      "share of the frames' cross-entropy in the loss, which keeps sequence training from overfitting");
    criterion.Visit(v);
    v("chain-data", chain_data, "for chain: the folder that antiphon chain made");
    v.Group("chain", chain);
  }
};

/// A loss that must know which frames a minibatch's rows are.
class MinibatchLoss : public nn::SequenceLoss {
 public:
  /// Of the next Compute's rows; it must outlive it.
  virtual void SetMinibatch(const data::Minibatch& minibatch) = 0;
  /// What branches of the network learn beside it, written by Compute and read by Backward; null: nothing.
  virtual nn::SideTargets* side_targets() { return nullptr; }
};

class UtteranceLoss : public MinibatchLoss {
 public:
  UtteranceLoss(std::shared_ptr<const data::FrameStore> store, std::shared_ptr<const LatticeCriterion> criterion,
                double cross_entropy_weight)
      : store_(std::move(store)), criterion_(std::move(criterion)), cross_entropy_weight_(cross_entropy_weight) {}

  void SetMinibatch(const data::Minibatch& minibatch) override { SetFrames(minibatch.frame_ids); }
  /// Of the next Compute's rows, as in FrameStore; −1: padding. They must outlive it.
  void SetFrames(std::span<const int64_t> frame_ids) { frame_ids_ = frame_ids; }
  std::vector<int64_t> Rows() const override { return {frame_ids_.begin(), frame_ids_.end()}; }
  std::vector<int64_t> RowsOfStreams(int first, int last, int streams) const override;
  void SetRows(std::vector<int64_t> rows) override {
    own_frame_ids_ = std::move(rows);
    frame_ids_ = own_frame_ids_;
  }
  nn::LossResult Compute(ConstMatrixView logits, const nn::LossTargets& targets, MatrixView derivative) override;

 private:
  // The row of each of its frames.
  struct UtteranceRows {
    size_t utterance;
    std::vector<int64_t> rows;
  };
  std::vector<UtteranceRows> FindUtterances() const;
  nn::LossResult OfUtterance(const UtteranceRows& rows, ConstMatrixView logits, const nn::LossTargets& targets,
                             double total, MatrixView derivative) const;
  double AddCrossEntropy(std::span<const float> logits, int32_t pdf_id, std::span<float> gradient) const;

  std::shared_ptr<const data::FrameStore> store_;
  std::shared_ptr<const LatticeCriterion> criterion_;
  double cross_entropy_weight_;
  std::span<const int64_t> frame_ids_;
  std::vector<int64_t> own_frame_ids_;
};

}  // namespace antiphon::train
