#include "nn/workspace.h"

namespace antiphon::nn {
namespace {

template <class T>
BasicMatrixView<T> Sized(std::deque<BasicMatrix<T>>& slots, size_t slot, int64_t rows, int64_t cols) {
  while (slots.size() <= slot) slots.emplace_back();
  slots[slot].Resize(rows, cols);
  return slots[slot].view();
}

template <class T>
BasicMatrixView<T> AsSized(std::deque<BasicMatrix<T>>& slots, size_t slot) {
  CHECK_LT(slot, slots.size()) << "a workspace slot is read before it was sized: no matching Forward";
  return slots[slot].view();
}

}  // namespace

MatrixView Workspace::Float(size_t slot, int64_t rows, int64_t cols) { return Sized(floats_, slot, rows, cols); }
Bf16View Workspace::Half(size_t slot, int64_t rows, int64_t cols) { return Sized(halves_, slot, rows, cols); }
BasicMatrixView<double> Workspace::Double(size_t slot, int64_t rows, int64_t cols) {
  return Sized(doubles_, slot, rows, cols);
}
MatrixView Workspace::Float(size_t slot) { return AsSized(floats_, slot); }
Bf16View Workspace::Half(size_t slot) { return AsSized(halves_, slot); }
BasicMatrixView<double> Workspace::Double(size_t slot) { return AsSized(doubles_, slot); }

Workspace& Workspace::Child(size_t index) {
  while (children_.size() <= index) children_.push_back(std::make_unique<Workspace>());
  return *children_[index];
}

size_t Workspace::bytes() const {
  size_t total = 0;
  for (const Matrix& m : floats_) total += static_cast<size_t>(m.size()) * sizeof(float);
  for (const Bf16Matrix& m : halves_) total += static_cast<size_t>(m.size()) * sizeof(Bf16);
  for (const DoubleMatrix& m : doubles_) total += static_cast<size_t>(m.size()) * sizeof(double);
  for (const auto& child : children_) total += child->bytes();
  return total;
}

}  // namespace antiphon::nn
