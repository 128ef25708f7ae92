// Keeps OpenBLAS to one thread: several would fight with our own pool and change sums with their number.
#pragma once

extern "C" void openblas_set_num_threads(int num_threads);

namespace antiphon {

/// To be called before any BLAS or LAPACK function; takes effect once.
inline void UseOneBlasThread() {
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  (void)done;
}

}  // namespace antiphon
