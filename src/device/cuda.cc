#include "device/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace antiphon {
namespace {

// The driver's own interface, of which this much needs no toolkit.
using InitFunction = int (*)(unsigned);
using CountFunction = int (*)(int*);
using VersionFunction = int (*)(int*);

template <class Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

struct Close {
  void operator()(void* library) const { ::dlclose(library); }
};

std::string Machine() {
  if (!std::filesystem::exists("/dev/nvidiactl")) return "no NVIDIA device on this machine";
  const std::unique_ptr<void, Close> driver(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL));
  if (driver == nullptr) return "an NVIDIA device, but no driver library libcuda.so.1, on this machine";
  const auto init = Find<InitFunction>(driver.get(), "cuInit");
  const auto count = Find<CountFunction>(driver.get(), "cuDeviceGetCount");
  const auto version = Find<VersionFunction>(driver.get(), "cuDriverGetVersion");
  int devices = 0;
  int number = 0;
  if (init == nullptr || count == nullptr || version == nullptr || init(0) != 0 || count(&devices) != 0 ||
      version(&number) != 0) {
    return "an NVIDIA driver, which finds no device, on this machine";
  }
  return fmt::format("{} NVIDIA device(s), driver for CUDA {}.{}, on this machine", devices, number / 1000,
                     number % 1000 / 10);
}

}  // namespace

std::string CudaState() { return fmt::format("this program has no kernels for CUDA; {}", Machine()); }

}  // namespace antiphon
