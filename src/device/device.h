// A place where arithmetic runs: memory, streams of work, and a key of the kernel table.
//
// The CPU is device 0 of its kind and always there. Work on a CPU stream runs at once in the calling thread, so that
// the same code drives both kinds.
// Threads: devices are shared; a Stream and a Buffer belong to one thread at a time.
// Errors: UsageError for a device that this build or machine lacks; Error for what the device reports.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon {

enum class DeviceKind { kCpu, kCuda };
enum class DataType { kFloat32, kBf16, kInt8 };

std::string_view DeviceKindName(DeviceKind kind);
std::string_view DataTypeName(DataType type);

/// An ordered queue of work.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Waits until all work put in so far has ended; throws its error.
  virtual void Synchronize() = 0;
};

/// Memory on a device, aligned to 64 bytes; contents are undefined at first.
class Buffer {
 public:
  virtual ~Buffer() = default;
  /// Device address; for the CPU a plain pointer.
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual int index() const = 0;
  /// "AMD EPYC 9B45, 2 cores" or "NVIDIA H200".
  virtual std::string Describe() const = 0;
  virtual std::unique_ptr<Buffer> Allocate(size_t bytes) = 0;
  virtual std::unique_ptr<Stream> NewStream() = 0;
  virtual void CopyToDevice(void* device_target, const void* host_source, size_t bytes, Stream& stream) = 0;
  virtual void CopyToHost(void* host_target, const void* device_source, size_t bytes, Stream& stream) = 0;
};

/// "cpu", "cuda" or "cuda:1". UsageError naming the devices that are there.
Device& GetDevice(std::string_view name);
/// Names of all devices of this machine that this build can use.
std::vector<std::string> DeviceNames();

/// Kinds of devices register a function that lists theirs, when the library is loaded.
using DeviceFinder = std::vector<std::unique_ptr<Device>> (*)();
bool RegisterDeviceFinder(DeviceFinder finder);

}  // namespace antiphon
