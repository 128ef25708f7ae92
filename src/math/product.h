// One matrix product as the libraries behind math/gemm.h see it: checked, not empty, with everything that it depends
// on.
//
// Shapes: C [m, n] = epilogue(alpha · op(A) [m, k] · op(B) [k, n]); m, n and k at least 1.
// Threads: the caller's compute threads (base/compute_threads.h); safe from several threads at once. The number of
// threads changes no bit: in what order sums are taken follows from the shape alone.
#pragma once

#include <cstdint>
#include <string>

#include "math/activation.h"

namespace antiphon {

struct MatrixProduct {
  bool bf16 = false;  // A and B; otherwise float
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  int64_t lda = 0, ldb = 0;
  bool trans_a = false, trans_b = false;
  float* c = nullptr;
  int64_t ldc = 0;
  float alpha = 1.0f, accumulate = 0.0f;
  const float* bias = nullptr;
  Activation activation = Activation::kNone;

  int64_t operations() const { return 2 * m * n * k; }
};

/// By panels and tiles of our own (math/product_tile.h): any CPU.
void MultiplyPacked(const MatrixProduct& product);

/// By oneDNN, block by block. Throws Error if it cannot, as for bf16 on CPUs without such instructions.
void MultiplyWithOneDnn(const MatrixProduct& product);
bool OneDnnMultipliesBf16();
/// "oneDNN 2.6.3, avx512_core_bf16".
std::string OneDnnName();

}  // namespace antiphon
