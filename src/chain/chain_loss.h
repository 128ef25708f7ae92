// The objective of chain training (lattice-free MMI) over a minibatch of chunks.
//
//   loss = Σ_chunks w · (log denominator − log numerator) + Σ_outputs w · (½·l2·|y|² + ½·out_of_range·|excess|²)
// over the network's outputs y, which are log-likelihoods without softmax or priors at acoustic scale 1; numerator and
// denominator as in chain/numerator.h and chain/denominator_passes.h. log numerator never exceeds log denominator.
//
// Shapes: output t of chunk b of B is row t·B + b of [T·B, pdf-ids]; chunks may be shorter than T: further rows are
// padding. The derivative is of loss / W, with W = Σ w · outputs of the chunks that are learned from, unless a total
// weight is given (LossTargets). Chunks that cannot be learned from (their utterance is unknown or too dense, the
// denominator does not know its phones' order, they reach beyond the utterance) count for nothing and have a derivative
// of 0: how many is counted, and the log names them.
// Units: nats. Threads: one object per thread; lanes are spread over the caller's compute threads, whose number changes
// no bit. Errors: ShapeError for outputs that do not fit the chunks.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "chain/chain_data.h"
#include "chain/denominator_passes.h"
#include "nn/loss.h"
#include "nn/side_targets.h"

namespace antiphon::chain {

struct ChainLossOptions {
  int tolerance = 5;
  double leak = 0.1;
  double output_l2 = 0.0;
  double out_of_range = 0.01;
  template <class V>
  void Visit(V& v) {
    v("tolerance", tolerance, Range{0, 30},
      "input frames by which a phone's boundary may move from where it was aligned");
    v("leak", leak, Range{0.0, 1.0}, "share of the denominator's probability that goes on from anywhere, per output");
    v("output-l2", output_l2, Range{0.0, 1.0}, "weight of the outputs' squares in the loss (5e-5, say; 0: none)");
    v("out-of-range", out_of_range, Range{0.0, 10.0}, "weight of the squares of what exceeds 30 in the outputs");
  }
};

struct ChainChunk {
  std::optional<size_t> utterance;  // as References numbers them; nothing: without reference
  ChunkTimes times;                 // no outputs: the lane is empty, which is no fault
  float weight = 1.0F;
};

struct ChainResult {
  double loss_sum = 0;       // as above, not divided
  double objective_sum = 0;  // Σ w · (log numerator − log denominator) ≤ 0
  double weight_sum = 0;     // W: Σ w · outputs
  double correct_sum = 0;    // Σ w · what the numerator gives to the largest of each row's outputs
  int64_t left_out = 0;      // chunks
};

class ChainLoss {
 public:
  ChainLoss(std::shared_ptr<const ChainData> data, const ChainLossOptions& options);

  /// Overwrites `derivative` (empty: not wanted; may be the outputs' own memory). A loss that is not a number comes of
  /// outputs that are not finite, with a derivative of 0.
  ChainResult Compute(std::span<const ChainChunk> chunks, ConstMatrixView outputs, MatrixView derivative,
                      std::optional<double> total_weight = {});
  /// What the numerator of the last Compute takes the rows to be, as targets of a cross-entropy branch: times the
  /// chunk's weight, so that a row sums to how much it counts (0: padding, chunks left out).
  const nn::ClassShares& posteriors() const { return posteriors_; }

  /// For the trainer's way of calling: what the next Compute's rows are. They must outlive it.
  void SetChunks(std::span<const ChainChunk> chunks) { chunks_ = chunks; }
  nn::LossResult Compute(ConstMatrixView outputs, const nn::LossTargets& targets, MatrixView derivative);

  const ChainData& data() const { return *data_; }

 private:
  struct Lane {
    std::optional<Numerator> numerator;
    std::string problem;
    double log_numerator = 0;
    std::vector<Occupancy> occupancies;
  };
  void MakeNumerator(const ChainChunk& chunk, int64_t num_outputs, Lane* lane) const;
  double CountCorrect(ConstMatrixView outputs) const;
  void GatherPosteriors(std::span<const ChainChunk> chunks, std::span<const Lane> lanes, int64_t rows);
  void NoteLeftOut(const ChainChunk& chunk, const std::string& problem);

  std::shared_ptr<const ChainData> data_;
  ChainLossOptions options_;
  NumeratorOptions numerator_options_;
  OutputTerms terms_;
  ContextPdfs pdfs_;
  DenominatorPasses passes_;
  std::vector<DenominatorPasses::Scratch> scratch_;  // by thread
  std::span<const ChainChunk> chunks_;
  nn::ClassShares posteriors_;
};

}  // namespace antiphon::chain
