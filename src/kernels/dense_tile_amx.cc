// The dense tile on CPUs with matrix registers (AMX): sixteen rows of inputs times sixteen outputs, 64 bytes deep, in
// one instruction.
//
// A panel lies as these registers want their weights: sixteen groups of sixteen outputs are sixteen lines of 64 bytes,
// a group apart. Up to sixteen rows take the panel's 64 outputs at once, so that it is read as one stream; up to 32
// take half of them at a time, so that every weight that is loaded serves 32 rows. Registers are set up in each call,
// because whoever else uses them in this thread sets them up in another way. int8 sums are exact, hence those of all
// instruction sets; in bf16 a row's bits do not depend on the rows beside it.
#include "kernels/dense_tile.h"
#include "kernels/fetch_ahead.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#define ANTIPHON_TARGET_AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))

namespace antiphon {
namespace {

constexpr int kBlock = 16;     // rows, and groups, of a register
constexpr int64_t kLine = 64;  // bytes of a register's row
constexpr int64_t kGroupBytes = 4 * kPanelOutputs;
constexpr int64_t kSumBytes = 4 * kPanelOutputs;
// Below so many rows vectors are faster than a register that is nearly empty.
constexpr int kFewestInt8Rows = 3;

struct alignas(64) Registers {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(Registers) == 64);

// What one step of 64 bytes of the depth reads.
struct Step {
  const char* input;
  int64_t input_stride;
  const char* weights;  // a group every kGroupBytes
};

// All steps of the depth; the last one from copies that are padded with zeros.
template <class Body>
ANTIPHON_TARGET_AMX inline void ForSteps(const DenseTileArgs& args, FetchAhead& next, Body body) {
  const auto* input = static_cast<const char*>(args.input);
  const auto* weights = static_cast<const char*>(args.panel);
  const int64_t whole = args.groups / kBlock;
  for (int64_t s = 0; s < whole; ++s, input += kLine, weights += kBlock * kGroupBytes) {
    next.Step();
    body(Step{input, args.input_stride, weights});
  }
  const auto rest = static_cast<size_t>(args.groups % kBlock);
  if (rest == 0) return;
  alignas(64) char last_input[2 * kBlock * kLine] = {};
  alignas(64) char last_weights[kBlock * kGroupBytes] = {};
  for (int r = 0; r < args.rows; ++r) std::memcpy(last_input + r * kLine, input + r * args.input_stride, 4 * rest);
  std::memcpy(last_weights, weights, rest * kGroupBytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // loads of registers are opaque to the compiler
  body(Step{last_input, kLine, last_weights});
}

template <bool kInt8, int kSum, int kInput, int kWeight>
ANTIPHON_TARGET_AMX inline void MultiplyAdd();

#define ANTIPHON_MULTIPLY_ADD(sum, input, weight)                            \
  template <>                                                                \
  ANTIPHON_TARGET_AMX inline void MultiplyAdd<true, sum, input, weight>() {  \
    _tile_dpbusd(sum, input, weight);                                        \
  }                                                                          \
  template <>                                                                \
  ANTIPHON_TARGET_AMX inline void MultiplyAdd<false, sum, input, weight>() { \
    _tile_dpbf16ps(sum, input, weight);                                      \
  }
ANTIPHON_MULTIPLY_ADD(0, 4, 6)
ANTIPHON_MULTIPLY_ADD(1, 4, 7)
ANTIPHON_MULTIPLY_ADD(2, 4, 6)
ANTIPHON_MULTIPLY_ADD(3, 4, 7)
ANTIPHON_MULTIPLY_ADD(2, 5, 6)
ANTIPHON_MULTIPLY_ADD(3, 5, 7)
#undef ANTIPHON_MULTIPLY_ADD

ANTIPHON_TARGET_AMX inline void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Registers 0 to 3 are the sums of 16 outputs each, 4 the inputs, 6 and 7 weights.
template <bool kInt8>
ANTIPHON_TARGET_AMX void OneBlock(const DenseTileArgs& args) {
  FetchAhead next(args.next, args.next_bytes, args.groups / kBlock);
  ZeroSums();
  ForSteps(args, next, [](const Step& step) ANTIPHON_TARGET_AMX {
    _tile_loadd(4, step.input, step.input_stride);
    _tile_loadd(6, step.weights, kGroupBytes);
    MultiplyAdd<kInt8, 0, 4, 6>();
    _tile_loadd(7, step.weights + kLine, kGroupBytes);
    MultiplyAdd<kInt8, 1, 4, 7>();
    _tile_loadd(6, step.weights + 2 * kLine, kGroupBytes);
    MultiplyAdd<kInt8, 2, 4, 6>();
    _tile_loadd(7, step.weights + 3 * kLine, kGroupBytes);
    MultiplyAdd<kInt8, 3, 4, 7>();
  });
  char* out = static_cast<char*>(args.out);
  _tile_stored(0, out, kSumBytes);
  _tile_stored(1, out + kLine, kSumBytes);
  _tile_stored(2, out + 2 * kLine, kSumBytes);
  _tile_stored(3, out + 3 * kLine, kSumBytes);
}

// Registers 0 and 1 are the sums of the first sixteen rows for 16 outputs each, 2 and 3 those of the others; 4 and 5
// their inputs, 6 and 7 weights.
template <bool kInt8>
ANTIPHON_TARGET_AMX void TwoBlocks(const DenseTileArgs& args) {
  FetchAhead next(args.next, args.next_bytes, 2 * (args.groups / kBlock));
  for (int64_t first = 0; first < 4 * kLine; first += 2 * kLine) {
    ZeroSums();
    ForSteps(args, next, [first](const Step& step) ANTIPHON_TARGET_AMX {
      _tile_loadd(6, step.weights + first, kGroupBytes);
      _tile_loadd(4, step.input, step.input_stride);
      MultiplyAdd<kInt8, 0, 4, 6>();
      _tile_loadd(7, step.weights + first + kLine, kGroupBytes);
      MultiplyAdd<kInt8, 1, 4, 7>();
      _tile_loadd(5, step.input + kBlock * step.input_stride, step.input_stride);
      MultiplyAdd<kInt8, 2, 5, 6>();
      MultiplyAdd<kInt8, 3, 5, 7>();
    });
    char* out = static_cast<char*>(args.out) + first;
    _tile_stored(0, out, kSumBytes);
    _tile_stored(1, out + kLine, kSumBytes);
    _tile_stored(2, out + kBlock * kSumBytes, kSumBytes);
    _tile_stored(3, out + kBlock * kSumBytes + kLine, kSumBytes);
  }
}

void SetUp(Registers& registers, int rows) {
  const auto lower = static_cast<uint8_t>(std::min(rows, kBlock));
  const auto upper = static_cast<uint8_t>(rows > kBlock ? rows - kBlock : lower);
  const uint8_t per_register[8] = {lower, lower, upper, upper, lower, upper, kBlock, kBlock};
  for (int i = 0; i < 8; ++i) {
    registers.rows[i] = per_register[i];
    registers.row_bytes[i] = kLine;
  }
}

template <bool kInt8>
ANTIPHON_TARGET_AMX void InParts(const DenseTileArgs& args) {
  DenseTileArgs part = args;
  for (int row = 0; row < args.rows; row += part.rows) {
    part.rows = std::min(args.rows - row, 2 * kBlock);
    part.input = static_cast<const char*>(args.input) + row * args.input_stride;
    part.out = static_cast<char*>(args.out) + row * kSumBytes;
    Registers registers;
    SetUp(registers, part.rows);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    _tile_loadconfig(&registers);
    part.rows > kBlock ? TwoBlocks<kInt8>(part) : OneBlock<kInt8>(part);
    _tile_release();
  }
}

void Int8Amx(const DenseTileArgs& args) {
  static const DenseTileOp::Function vectors = IsaKernel<DenseTileOp>(DataType::kInt8, Isa::kAvx512Vnni).function;
  if (args.rows < kFewestInt8Rows) return vectors(args);
  InParts<true>(args);
}

void Bf16Amx(const DenseTileArgs& args) { InParts<false>(args); }

REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kInt8, "avx512-amx", 0, &Int8Amx);
REGISTER_KERNEL(DenseTileOp, DeviceKind::kCpu, DataType::kBf16, "avx512-amx", 0, &Bf16Amx);

}  // namespace
}  // namespace antiphon
#endif
