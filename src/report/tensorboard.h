// TensorBoard event files: scalars and texts that TensorBoard (and anything that reads its format) draws live.
//
// Format: TFRecord frames (length, masked CRC32C of the length, payload, masked CRC32C of the payload; little endian),
// each payload an Event protobuf message: wall_time, step, summary { value { tag, simple_value | tensor } }. The few
// fields are encoded here, so that no protobuf library is needed. Source: tensorflow/core/lib/io/record_writer.h,
// core/util/event.proto; CRC32C (Castagnoli) as in RFC 3720. Threads: one thread per writer. Errors: IoError naming the
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace antiphon::report {

/// CRC32C of `bytes`, and the masked form that TFRecord stores.
uint32_t Crc32c(std::string_view bytes);
uint32_t MaskedCrc32c(std::string_view bytes);

/// What of a file of events are whole records, all that whoever reads it can use: a writer that was lost may have left
/// a piece of one behind them.
uint64_t BytesOfWholeEvents(const std::filesystem::path& path);

/// Appends events to one file. TensorBoard looks for names that contain "tfevents", as kFileName does.
class TensorBoardWriter {
 public:
  static constexpr const char* kFileName = "events.out.tfevents.0.antiphon";

  /// Keeps the first `keep_bytes` of an existing file, so that a resumed run does not repeat steps; 0 starts anew.
  explicit TensorBoardWriter(std::filesystem::path path, uint64_t keep_bytes = 0);

  void Scalar(std::string_view tag, int64_t step, double value);
  /// Shown in the TEXT tab, as Markdown.
  void Text(std::string_view tag, int64_t step, std::string_view text);
  uint64_t position() const { return position_; }

 private:
  void Record(std::string_view payload);
  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t position_ = 0;
};

}  // namespace antiphon::report
