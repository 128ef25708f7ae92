// Which library multiplies matrices on this CPU.
//
// fp32: panels of our own ("packed") up to AVX2, oneDNN from AVX-512 on; bf16: oneDNN where it has instructions for it,
// otherwise "packed", which widens the factors while it packs them. By measurements (docs/results/speed.md). The
// environment variable ANTIPHON_PRODUCTS=packed|onednn decides instead for both, where the library can do it. Different
// libraries give different bits; each gives the same for any number of threads.
// Threads: any. Errors: UsageError for another value of the variable.
#pragma once

#include "math/product.h"

namespace antiphon {

struct ProductLibrary {
  const char* name;
  void (*multiply)(const MatrixProduct& product);
};

const ProductLibrary& LibraryFor(bool bf16);

}  // namespace antiphon
