// The checksum that a safetensors file of ours carries in its metadata. Internal to src/math.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include "math/safetensors.h"

namespace antiphon::internal {

inline constexpr char kChecksumKey[] = "antiphon_checksum";

// Covers names, types, shapes, metadata and data, each with its length, so that no two files share their input.
class ChecksumBuilder {
 public:
  ChecksumBuilder() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ChecksumBuilder(const ChecksumBuilder&) = delete;
  ~ChecksumBuilder() { XXH3_freeState(state_); }

  void AddText(std::string_view text) {
    AddNumber(text.size());
    XXH3_64bits_update(state_, text.data(), text.size());
  }
  void AddTensor(const std::string& name, TensorType type, const std::vector<int64_t>& shape,
                 std::span<const std::byte> data) {
    BeginTensor(name, type, shape, data.size());
    AddData(data);
  }
  /// The same in pieces: AddData follows until there are `bytes`.
  void BeginTensor(const std::string& name, TensorType type, const std::vector<int64_t>& shape, size_t bytes) {
    AddText(name);
    AddText(TensorTypeName(type));
    AddNumber(shape.size());
    for (const int64_t d : shape) AddNumber(static_cast<uint64_t>(d));
    AddNumber(bytes);
  }
  void AddData(std::span<const std::byte> data) {
    if (!data.empty()) XXH3_64bits_update(state_, data.data(), data.size());
  }
  void AddMetadata(const TensorMetadata& metadata) {
    for (const auto& [key, value] : metadata) {
      if (key == kChecksumKey) continue;
      AddText(key);
      AddText(value);
    }
  }
  std::string Hex() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_)); }

 private:
  void AddNumber(uint64_t n) { XXH3_64bits_update(state_, &n, sizeof n); }
  XXH3_state_t* state_;
};

}  // namespace antiphon::internal
