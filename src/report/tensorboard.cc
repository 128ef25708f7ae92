#include "report/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/file.h"
#include "report/append_file.h"

namespace antiphon::report {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

template <class T>
void AppendFixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <class T>
T FixedAt(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Protobuf wire format: a field is (number << 3 | type); 0 varint, 1 64-bit, 2 length-delimited, 5 32-bit.
void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void AppendVarintField(std::string& out, uint32_t number, uint64_t value) {
  AppendVarint(out, number << 3);
  AppendVarint(out, value);
}
void AppendBytesField(std::string& out, uint32_t number, std::string_view bytes) {
  AppendVarint(out, number << 3 | 2);
  AppendVarint(out, bytes.size());
  out.append(bytes);
}

// Event: 1 wall_time (double), 2 step (int64).
std::string EventHead(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  AppendVarint(event, 1 << 3 | 1);
  AppendFixed(event, now.count());
  AppendVarintField(event, 2, static_cast<uint64_t>(step));
  return event;
}

// Event: 5 summary; Summary: 1 repeated value.
std::string EventWithValue(int64_t step, std::string_view value) {
  std::string summary;
  AppendBytesField(summary, 1, value);
  std::string event = EventHead(step);
  AppendBytesField(event, 5, summary);
  return event;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

uint64_t BytesOfWholeEvents(const std::filesystem::path& path) {
  constexpr uint64_t kHead = 12, kChecksum = 4;
  const std::string file = ReadFile(path);
  const std::string_view bytes = file;
  for (uint64_t at = 0;;) {
    const std::string_view left = bytes.substr(at);
    if (left.size() < kHead + kChecksum) return at;
    const auto size = FixedAt<uint64_t>(left, 0);
    if (FixedAt<uint32_t>(left, 8) != MaskedCrc32c(left.substr(0, 8))) return at;
    if (size > left.size() - kHead - kChecksum) return at;
    if (FixedAt<uint32_t>(left, kHead + size) != MaskedCrc32c(left.substr(kHead, size))) return at;
    at += kHead + size + kChecksum;
  }
}

TensorBoardWriter::TensorBoardWriter(std::filesystem::path path, uint64_t keep_bytes) : path_(std::move(path)) {
  file_ = OpenForAppending(path_, keep_bytes);
  position_ = keep_bytes;
  if (position_ > 0) return;
  std::string event = EventHead(0);
  AppendBytesField(event, 3, "brain.Event:2");  // Event: 3 file_version
  Record(event);
}

void TensorBoardWriter::Record(std::string_view payload) {
  std::string record;
  AppendFixed(record, static_cast<uint64_t>(payload.size()));
  AppendFixed(record, MaskedCrc32c(record));
  record.append(payload);
  AppendFixed(record, MaskedCrc32c(payload));
  AppendWhole(file_.get(), path_, position_, record);
  position_ += record.size();
}

// Summary.Value: 1 tag, 2 simple_value (float), 8 tensor, 9 metadata.
void TensorBoardWriter::Scalar(std::string_view tag, int64_t step, double value) {
  std::string message;
  AppendBytesField(message, 1, tag);
  AppendVarint(message, 2 << 3 | 5);
  AppendFixed(message, static_cast<float>(value));
  Record(EventWithValue(step, message));
}

void TensorBoardWriter::Text(std::string_view tag, int64_t step, std::string_view text) {
  // TensorProto: 1 dtype (7 = string), 2 tensor_shape { 2 dim { 1 size } }, 8 string_val.
  std::string dimension;
  AppendVarintField(dimension, 1, 1);
  std::string shape;
  AppendBytesField(shape, 2, dimension);
  std::string tensor;
  AppendVarintField(tensor, 1, 7);
  AppendBytesField(tensor, 2, shape);
  AppendBytesField(tensor, 8, text);
  // SummaryMetadata: 1 plugin_data { 1 plugin_name }.
  std::string plugin;
  AppendBytesField(plugin, 1, "text");
  std::string metadata;
  AppendBytesField(metadata, 1, plugin);
  std::string message;
  AppendBytesField(message, 1, tag);
  AppendBytesField(message, 8, tensor);
  AppendBytesField(message, 9, metadata);
  Record(EventWithValue(step, message));
}

}  // namespace antiphon::report
