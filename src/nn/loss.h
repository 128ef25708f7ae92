// Softmax cross-entropy over logits, with its derivative, in one sweep over memory.
//
// L = Σ_n w_n · ((1 − a)·(−log softmax(z_n)_{s(n)}) + a·T²·KL(t_n ‖ softmax(z_n/T))) / W, with W = Σ w_n unless given:
// frame-averaged. s(n) is a pdf-id, t_n a teacher's distribution at temperature T; T² keeps the soft part's gradient,
// a·T·(softmax(z/T) − t), as large as the other's.
// Shapes: logits [N, K]; targets one pdf-id per frame, or [N, K] distributions (rows sum to 1), or both. N may be 0.
// Sequence criteria take the place of the pdf-ids' part. A network of several heads, for that many frames at once, has
// logits [N, heads·K], and the loss is the sum of theirs. Units: nats. Threads: the caller's compute threads; sums are
// in a fixed order whatever their number. Errors: InputError naming frame and id for a target outside [0, K). Source:
// Hinton, Vinyals, Dean, Distilling the knowledge in a neural network, 2015, for the soft part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "math/matrix.h"
#include "nn/exec_context.h"

namespace antiphon::nn {

struct LossTargets;
struct LossResult;

/// A loss of whole utterances in place of frames (sequence-discriminative training).
class SequenceLoss {
 public:
  virtual ~SequenceLoss() = default;
  /// As SoftmaxCrossEntropy, which calls it. It knows to which utterances the rows of logits belong.
  virtual LossResult Compute(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative) = 0;
  /// What the next Compute's rows are, as numbers that outlast the minibatch, in checkpoints too.
  virtual std::vector<int64_t> Rows() const = 0;
  /// The same of streams first … last − 1 alone, of the `streams` that the next Compute's rows consist of.
  virtual std::vector<int64_t> RowsOfStreams(int first, int last, int streams) const = 0;
  /// The next Compute's rows are those that Rows once told.
  virtual void SetRows(std::vector<int64_t> rows) = 0;
};

struct LossTargets {
  /// One pdf-id per frame …
  std::span<const int32_t> pdf_ids = {};
  /// … or a distribution per frame, already at `temperature`; with both, soft_weight is a.
  ConstMatrixView soft = {};
  double soft_weight = 1.0;
  double temperature = 1.0;
  /// Takes the place of the pdf-ids; with `soft` too, the loss is (1 − a) times this plus a times KL(soft ‖ softmax).
  SequenceLoss* sequence = nullptr;
  /// With more than one, pdf_ids are [N · heads], frame after frame, and soft is shaped like the logits.
  int heads = 1;
  /// One weight per frame; empty: all 1.
  std::span<const float> frame_weights = {};
  /// W; default Σ w_n. A worker with a share of a common minibatch gives the whole minibatch's.
  std::optional<double> total_weight = {};
};

/// Throws UsageError unless the targets are one pdf-id per frame; `who` cannot do with others.
void RequirePdfIds(const LossTargets& targets, std::string_view who);

struct LossResult {
  double loss_sum = 0;     // Σ w_n·loss_n, not divided by W
  double weight_sum = 0;   // Σ w_n (of each head)
  double correct_sum = 0;  // Σ w_n over frames whose largest logit is the target (the largest t_nk without pdf-ids)
  double loss() const { return weight_sum > 0 ? loss_sum / weight_sum : 0; }
  double frame_accuracy() const { return weight_sum > 0 ? correct_sum / weight_sum : 0; }
  LossResult& operator+=(const LossResult& other);
};

/// Loss and dL/dlogits; `derivative` may be the logits' own memory, or empty if only the loss is wanted.
LossResult SoftmaxCrossEntropy(ConstMatrixView logits, const LossTargets& targets, MatrixView derivative);

/// The context of the backward pass behind this loss.
ExecContext WithLoss(const ExecContext& context, const LossTargets& targets, const LossResult& loss);

}  // namespace antiphon::nn
