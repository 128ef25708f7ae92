// The fuzzer's bytes as a file, because most readers want a path.
//
// One folder per process, in memory where the system has such a place; removed at exit.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "math/safetensors.h"

namespace antiphon::fuzz {

class FuzzFolder {
 public:
  /// The process's folder.
  static const std::filesystem::path& Get() {
    static const FuzzFolder folder;
    return folder.path_;
  }
  /// Overwrites a file of that folder.
  static std::string Write(const std::string& name, const uint8_t* data, size_t size) {
    const std::filesystem::path path = Get() / name;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path.string();
  }

 private:
  FuzzFolder() {
    const char* base = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    std::string pattern = std::string(base) + "/antiphon_fuzz.XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ::abort();
    path_ = pattern;
  }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path path_;
};

/// Writes the fuzzer's tensor file with the checksum that our models must carry, so that random changes reach what lies
/// behind it. Its path; empty: it is no tensor file.
inline std::string WriteSealed(const std::string& name, const uint8_t* data, size_t size) {
  const std::string sealed = (FuzzFolder::Get() / name).string();
  try {
    const SafetensorsReader reader(FuzzFolder::Write("plain.safetensors", data, size));
    SafetensorsWriter writer;
    for (const std::string& tensor_name : reader.Names()) {
      const TensorView& tensor = reader.Tensor(tensor_name);
      writer.Add(tensor_name, tensor.type, tensor.shape, tensor.data);
    }
    for (const auto& [key, value] : reader.metadata()) writer.SetMetadata(key, value);
    writer.Write(sealed);
  } catch (const Error&) {
    return "";
  }
  return sealed;
}

}  // namespace antiphon::fuzz
