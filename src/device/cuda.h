// What stands between this program and NVIDIA devices.
//
// The device interface and the kernel table have a place for CUDA (device.h, kernel_table.h), but no kernel is written
// that has not run on a GPU; until then this says why `device = "cuda"` is refused.
#pragma once

#include <string>

namespace antiphon {

/// "this program was built without CUDA; no NVIDIA device on this machine" and the like.
std::string CudaState();

}  // namespace antiphon
