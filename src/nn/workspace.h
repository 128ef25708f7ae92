// State of one forward/backward pass, kept outside the layers so that one network serves many threads.
//
// A layer asks for matrices by slot number; the same memory comes back in every pass, so that nothing is allocated
// after the first pass of a given size. Contents survive from Forward to the matching Backward.
// Threads: one Workspace per thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "math/bf16.h"
#include "math/matrix.h"
#include "math/padded_matrix.h"

namespace antiphon::nn {

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  Workspace(Workspace&&) = default;
  Workspace& operator=(Workspace&&) = default;

  /// Slot numbers are small and private to the layer; each kind of slot is counted apart. Contents are undefined when
  /// the size changes; a view has an address even without rows. Other slots' views stay valid. Derivatives, which
  /// weight gradients read transposed, have their rows padded (math/padded_matrix.h).
  MatrixView Float(size_t slot, int64_t rows, int64_t cols);
  MatrixView Derivative(size_t slot, int64_t rows, int64_t cols);
  Bf16View HalfDerivative(size_t slot, int64_t rows, int64_t cols);
  Bf16View Half(size_t slot, int64_t rows, int64_t cols);
  BasicMatrixView<double> Double(size_t slot, int64_t rows, int64_t cols);

  /// What a recurrent layer carries from one minibatch to the next: [rows, cols], zero when the size changes.
  MatrixView State(size_t slot, int64_t rows, int64_t cols);

  /// A slot as it was last sized.
  MatrixView Float(size_t slot);
  Bf16View Half(size_t slot);
  BasicMatrixView<double> Double(size_t slot);

  /// The workspace of a part (a layer of a network, a branch of a composite).
  Workspace& Child(size_t index);

  /// Input and output of the last Forward. They must stay unchanged until Backward; layers read them there instead of
  /// keeping copies.
  ConstMatrixView x;
  ConstMatrixView y;

  /// Contents of all slots, children included, for a checkpoint between Forward and Backward.
  void AppendTo(std::vector<std::byte>& bytes) const;
  /// Into a workspace that a Forward of the same sizes has prepared, so that x and y point to where they should; takes
  /// its part from the front of `bytes`. InputError if these end early.
  void TakeFrom(std::span<const std::byte>& bytes);

  /// The carried states alone, children included, for a checkpoint between two minibatches; empty if there are none.
  std::vector<std::byte> States() const;
  /// InputError if `bytes` are not what States gave.
  void SetStates(std::span<const std::byte> bytes);
  /// The carried states of two workspaces of one network change places, children included.
  void SwapStates(Workspace& other);

  /// Bytes held, children included.
  size_t bytes() const;

 private:
  bool has_states() const;
  void AppendStates(std::vector<std::byte>& bytes) const;
  void TakeStates(std::span<const std::byte>& bytes);

  std::deque<Matrix> floats_;
  std::deque<Bf16Matrix> halves_;
  std::deque<PaddedMatrix<float>> derivatives_;
  std::deque<PaddedMatrix<Bf16>> half_derivatives_;
  std::deque<DoubleMatrix> doubles_;
  std::deque<Matrix> states_;
  std::vector<std::unique_ptr<Workspace>> children_;
};

}  // namespace antiphon::nn
