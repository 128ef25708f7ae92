#include "device/device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/suggest.h"
#include "base/thread_pool.h"
#include "device/cuda.h"

namespace antiphon {
namespace {

std::vector<DeviceFinder>& Finders() {
  static std::vector<DeviceFinder> finders;
  return finders;
}

const std::vector<std::unique_ptr<Device>>& Devices() {
  static const std::vector<std::unique_ptr<Device>> devices = [] {
    std::vector<std::unique_ptr<Device>> all;
    for (const DeviceFinder finder : Finders()) {
      for (auto& device : finder()) all.push_back(std::move(device));
    }
    return all;
  }();
  return devices;
}

std::string NameOf(const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return "cpu";
  return fmt::format("{}:{}", DeviceKindName(device.kind()), device.index());
}

class CpuBuffer : public Buffer {
 public:
  explicit CpuBuffer(size_t bytes) : bytes_(bytes), data_(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64)) {
    if (data_ == nullptr) Throw<Error>("{} bytes of memory are not available", bytes);
  }
  ~CpuBuffer() override { std::free(data_); }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

class CpuStream : public Stream {
 public:
  void Synchronize() override {}
};

class CpuDevice : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int index() const override { return 0; }
  std::string Describe() const override {
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
  std::unique_ptr<Buffer> Allocate(size_t bytes) override { return std::make_unique<CpuBuffer>(bytes); }
  std::unique_ptr<Stream> NewStream() override { return std::make_unique<CpuStream>(); }
  void CopyToDevice(void* target, const void* source, size_t bytes, Stream&) override {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }
  void CopyToHost(void* target, const void* source, size_t bytes, Stream&) override {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }
};

std::vector<std::unique_ptr<Device>> FindCpu() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<CpuDevice>());
  return devices;
}

[[maybe_unused]] const bool registered = RegisterDeviceFinder(&FindCpu);

}  // namespace

std::string_view DeviceKindName(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

std::string_view DataTypeName(DataType type) {
  return type == DataType::kFloat32 ? "fp32" : type == DataType::kBf16 ? "bf16" : "int8";
}

Device& GetDevice(std::string_view name) {
  for (const auto& device : Devices()) {
    if (NameOf(*device) == name || (device->index() == 0 && DeviceKindName(device->kind()) == name)) return *device;
  }
  if (name == "cuda" || name.starts_with("cuda:")) {
    Throw<UsageError>("device '{}' cannot be used: {}; devices: {}", name, CudaState(), fmt::join(DeviceNames(), ", "));
  }
  throw UsageError(UnknownNameMessage("device", name, DeviceNames()));
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const auto& device : Devices()) names.push_back(NameOf(*device));
  return names;
}

bool RegisterDeviceFinder(DeviceFinder finder) {
  Finders().push_back(finder);
  return true;
}

}  // namespace antiphon
