// What stands between this program and NVIDIA devices.
//
// The kernel table has a place for CUDA (kernel_table.h), but no kernel is written that has not run on a GPU; until
// then this says why `device = "cuda"` is refused.
#pragma once

#include <string>

namespace antiphon {

/// "this program has no kernels for CUDA; no NVIDIA device on this machine" and the like.
std::string CudaState();

}  // namespace antiphon
