#include "device/device.h"

#include <fmt/format.h>

#include <fstream>

#include "base/error.h"
#include "base/suggest.h"
#include "base/thread_pool.h"
#include "device/cuda.h"

namespace antiphon {

std::string_view DeviceKindName(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

std::string_view DataTypeName(DataType type) {
  return type == DataType::kFloat32 ? "fp32" : type == DataType::kBf16 ? "bf16" : "int8";
}

void RequireDevice(std::string_view name) {
  if (name == "cpu") return;
  if (name == "cuda" || name.starts_with("cuda:")) {
    Throw<UsageError>("device '{}' cannot be used: {}; devices: cpu", name, CudaState());
  }
  throw UsageError(UnknownNameMessage("device", name, {"cpu"}));
}

std::string DescribeCpu() {
  std::ifstream info("/proc/cpuinfo");
  std::string model = "CPU";
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) model = line.substr(colon + 2);
    break;
  }
  return fmt::format("{}, {} core(s)", model, NumCores());
}

}  // namespace antiphon
