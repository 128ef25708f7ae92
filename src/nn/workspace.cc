#include "nn/workspace.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace antiphon::nn {
namespace {

template <class M>
auto Sized(std::deque<M>& slots, size_t slot, int64_t rows, int64_t cols) {
  while (slots.size() <= slot) slots.emplace_back();
  M& m = slots[slot];
  m.Resize(rows, cols);
  // A derivative without an address is one that nobody wants, which one without rows is not.
  if (m.view().data() == nullptr) {
    m.Resize(1, 1);
    m.Resize(rows, cols);
  }
  return m.view();
}

template <class M>
auto AsSized(std::deque<M>& slots, size_t slot) {
  CHECK_LT(slot, slots.size()) << "a workspace slot is read before it was sized: no matching Forward";
  return slots[slot].view();
}

void AppendNumber(std::vector<std::byte>& bytes, int64_t number) {
  const auto* data = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), data, data + sizeof(number));
}

std::span<const std::byte> TakeBytes(std::span<const std::byte>& bytes, size_t size) {
  if (bytes.size() < size) Throw<InputError>("a stored workspace ends early: {} bytes left of {}", bytes.size(), size);
  const std::span<const std::byte> taken = bytes.first(size);
  bytes = bytes.subspan(size);
  return taken;
}

int64_t TakeNumber(std::span<const std::byte>& bytes) {
  int64_t number = 0;
  std::memcpy(&number, TakeBytes(bytes, sizeof(number)).data(), sizeof(number));
  return number;
}

template <class M>
void Append(const std::deque<M>& slots, std::vector<std::byte>& bytes) {
  AppendNumber(bytes, std::ssize(slots));
  for (const M& m : slots) {
    AppendNumber(bytes, m.rows());
    AppendNumber(bytes, m.cols());
    for (int64_t r = 0; r < m.rows(); ++r) {
      const auto row = std::as_bytes(m.view().Row(r));
      bytes.insert(bytes.end(), row.begin(), row.end());
    }
  }
}

template <class M>
void Take(std::deque<M>& slots, std::span<const std::byte>& bytes) {
  const auto count = static_cast<size_t>(TakeNumber(bytes));
  while (slots.size() < count) slots.emplace_back();
  for (size_t i = 0; i < count; ++i) {
    const int64_t rows = TakeNumber(bytes);
    const int64_t cols = TakeNumber(bytes);
    slots[i].Resize(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = std::as_writable_bytes(slots[i].view().Row(r));
      std::ranges::copy(TakeBytes(bytes, row.size()), row.begin());
    }
  }
}

}  // namespace

MatrixView Workspace::Float(size_t slot, int64_t rows, int64_t cols) { return Sized(floats_, slot, rows, cols); }
MatrixView Workspace::Derivative(size_t slot, int64_t rows, int64_t cols) {
  return Sized(derivatives_, slot, rows, cols);
}
Bf16View Workspace::HalfDerivative(size_t slot, int64_t rows, int64_t cols) {
  return Sized(half_derivatives_, slot, rows, cols);
}
Bf16View Workspace::Half(size_t slot, int64_t rows, int64_t cols) { return Sized(halves_, slot, rows, cols); }
BasicMatrixView<double> Workspace::Double(size_t slot, int64_t rows, int64_t cols) {
  return Sized(doubles_, slot, rows, cols);
}
MatrixView Workspace::State(size_t slot, int64_t rows, int64_t cols) {
  while (states_.size() <= slot) states_.emplace_back();
  if (states_[slot].rows() != rows || states_[slot].cols() != cols) states_[slot] = Matrix(rows, cols);
  return states_[slot].view();
}
MatrixView Workspace::Float(size_t slot) { return AsSized(floats_, slot); }
Bf16View Workspace::Half(size_t slot) { return AsSized(halves_, slot); }
BasicMatrixView<double> Workspace::Double(size_t slot) { return AsSized(doubles_, slot); }

Workspace& Workspace::Child(size_t index) {
  while (children_.size() <= index) children_.push_back(std::make_unique<Workspace>());
  return *children_[index];
}

void Workspace::AppendTo(std::vector<std::byte>& bytes) const {
  Append(floats_, bytes);
  Append(halves_, bytes);
  Append(derivatives_, bytes);
  Append(half_derivatives_, bytes);
  Append(doubles_, bytes);
  AppendNumber(bytes, std::ssize(children_));
  for (const auto& child : children_) child->AppendTo(bytes);
}

void Workspace::TakeFrom(std::span<const std::byte>& bytes) {
  Take(floats_, bytes);
  Take(halves_, bytes);
  Take(derivatives_, bytes);
  Take(half_derivatives_, bytes);
  Take(doubles_, bytes);
  const auto count = static_cast<size_t>(TakeNumber(bytes));
  for (size_t i = 0; i < count; ++i) Child(i).TakeFrom(bytes);
}

bool Workspace::has_states() const {
  return !states_.empty() ||
         std::any_of(children_.begin(), children_.end(), [](const auto& child) { return child->has_states(); });
}

void Workspace::AppendStates(std::vector<std::byte>& bytes) const {
  Append(states_, bytes);
  AppendNumber(bytes, std::ssize(children_));
  for (const auto& child : children_) child->AppendStates(bytes);
}

void Workspace::TakeStates(std::span<const std::byte>& bytes) {
  Take(states_, bytes);
  const auto count = static_cast<size_t>(TakeNumber(bytes));
  for (size_t i = 0; i < count; ++i) Child(i).TakeStates(bytes);
}

std::vector<std::byte> Workspace::States() const {
  std::vector<std::byte> bytes;
  if (has_states()) AppendStates(bytes);
  return bytes;
}

void Workspace::SetStates(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  TakeStates(bytes);
  if (!bytes.empty()) Throw<InputError>("stored states have {} bytes too many", bytes.size());
}

void Workspace::SwapStates(Workspace& other) {
  states_.swap(other.states_);
  const size_t count = std::max(children_.size(), other.children_.size());
  for (size_t i = 0; i < count; ++i) Child(i).SwapStates(other.Child(i));
}

size_t Workspace::bytes() const {
  size_t total = 0;
  for (const Matrix& m : floats_) total += static_cast<size_t>(m.size()) * sizeof(float);
  for (const Bf16Matrix& m : halves_) total += static_cast<size_t>(m.size()) * sizeof(Bf16);
  for (const auto& m : derivatives_) total += m.bytes();
  for (const auto& m : half_derivatives_) total += m.bytes();
  for (const Matrix& m : states_) total += static_cast<size_t>(m.size()) * sizeof(float);
  for (const DoubleMatrix& m : doubles_) total += static_cast<size_t>(m.size()) * sizeof(double);
  for (const auto& child : children_) total += child->bytes();
  return total;
}

}  // namespace antiphon::nn
