// Forward and backward passes of the denominator over chunks of outputs, sixteen at a time.
//
// With y limited to ±limit, a path's weight is initial · Π_t probability · exp(y_t(pdf-id)); after each output but the
// last, every state also leaks to all: the share `leak` of the output's sum goes on from the states by their initial
// probabilities. Probabilities are kept in 32 bits, divided by each output's sum.
//
// Shapes: output t of lane b of a minibatch of B chunks is row t·B + b. Lanes may be shorter than the longest.
// Units: nats. Threads: const methods may run together, each with its own scratch. The same bits on every CPU.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <array>
#include <cstdint>

#include "chain/denominator.h"
#include "chain/lane_kernels.h"
#include "math/matrix.h"

namespace antiphon::chain {

struct OutputTerms {
  float leak = 0.1F;
  float limit = 30.0F;
  float l2 = 0.0F;             // of the outputs
  float out_of_range = 0.01F;  // of what exceeds the limit
};

class DenominatorPasses {
 public:
  struct Lanes {
    int64_t first_row = 0;                  // of output 0 in lane 0
    int64_t rows_per_output = 0;            // B
    std::array<int32_t, kLanes> outputs{};  // 0: nothing in this lane
    std::array<float, kLanes> scale{};      // of the derivative
  };
  struct Sums {
    double log_sum = 0;
    double squares = 0;  // Σ y²
    double excess = 0;   // Σ (y − limited y)²
  };
  class Scratch {
   public:
    friend class DenominatorPasses;

   private:
    Matrix likelihoods_, alpha_, behind_, gamma_, weights_, here_;
    Matrix totals_;
  };

  explicit DenominatorPasses(const DenominatorGraph& graph);

  /// Writes scale · (occupancies + l2 · y + out_of_range · excess) into the lanes' rows of `derivative` (which may be
  /// the outputs' own memory), unless it is empty; other rows are left alone. Outputs must be finite.
  std::array<Sums, kLanes> Run(ConstMatrixView outputs, const Lanes& lanes, const OutputTerms& terms,
                               MatrixView derivative, Scratch* scratch) const;

  const LaneGraph& graph() const { return graph_; }

 private:
  void Forward(ConstMatrixView outputs, const Lanes& lanes, int64_t num_outputs, const OutputTerms& terms,
               Scratch* scratch) const;

  LaneGraph graph_;
};

}  // namespace antiphon::chain
