// safetensors files: named tensors and text metadata; Python's `safetensors` reads what we write and the reverse.
//
// Layout: 8 bytes little-endian header length, JSON header, tensor data. We write tensors sorted by name, the header
// padded to a multiple of 64 bytes, and an XXH3 checksum of everything that matters (names, types, shapes, metadata,
// data) in the metadata key "antiphon_checksum"; a file that carries the key is verified when it is opened, so that a
// file cut short or changed anywhere is refused. Files of others, without the key, are accepted after the structural
// checks.
// Shapes: a matrix is [rows, cols]; a vector is [n].
// Threads: a reader's const methods may run together.
// Errors: InputError naming file, tensor, expected and found, for whatever is wrong inside the file; IoError for the
// file.
// Source: https://github.com/huggingface/safetensors (format 0.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "math/bf16.h"
#include "math/matrix.h"

namespace antiphon {

enum class TensorType { kF32, kF64, kF16, kBf16, kI8, kU8, kI16, kI32, kI64, kU64 };

/// "F32", …
std::string_view TensorTypeName(TensorType type);
size_t TensorTypeBytes(TensorType type);

/// A tensor inside a file; `data` points into the map and may be unaligned for its type.
struct TensorView {
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

using TensorMetadata = std::map<std::string, std::string>;

class SafetensorsReader {
 public:
  /// Maps the file and checks everything before any tensor is handed out.
  explicit SafetensorsReader(const std::filesystem::path& path);
  /// A file kept inside another: its bytes, which must outlive the reader; `name` stands for the path in errors.
  SafetensorsReader(std::span<const std::byte> bytes, std::filesystem::path name);

  const std::filesystem::path& path() const { return path_; }
  const TensorMetadata& metadata() const { return metadata_; }
  /// The metadata text `key`; InputError if it is missing.
  const std::string& Metadata(std::string_view key) const;
  /// `fallback` if it is missing.
  std::string MetadataOr(std::string_view key, std::string fallback) const;

  /// The file carried a checksum (and it was right): it is whole and as it was written.
  bool has_checksum() const { return metadata_.contains("antiphon_checksum"); }

  /// Sorted.
  std::vector<std::string> Names() const;
  bool Has(std::string_view name) const;
  const TensorView& Tensor(std::string_view name) const;

  /// Copies, converted from F32, F64, F16 or BF16; InputError for other types or another number of dimensions.
  Matrix ReadMatrix(std::string_view name) const;
  DoubleMatrix ReadDoubleMatrix(std::string_view name) const;
  std::vector<float> ReadFloats(std::string_view name) const;
  std::vector<double> ReadDoubles(std::string_view name) const;
  /// From any integer type that fits.
  std::vector<int64_t> ReadInts(std::string_view name) const;
  /// Into existing memory; the shape must be exactly that of `target`.
  void ReadInto(std::string_view name, MatrixView target) const;

  /// Takes tensors that another file holds for this one; InputError if it lacks one. Keeps that file.
  void Adopt(std::shared_ptr<const SafetensorsReader> other, std::span<const std::string> names);
  /// From now on tensor `name` has these values, [1, n].
  void Replace(const std::string& name, std::vector<float> values);

 private:
  void Parse(std::span<const std::byte> bytes);
  std::shared_ptr<const SafetensorsReader> other_;
  std::map<std::string, std::vector<float>> replaced_;
  std::optional<MappedFile> file_;
  std::filesystem::path path_;
  TensorMetadata metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

class SafetensorsWriter {
 public:
  /// Copies the values; a name given twice is an InternalError.
  void Add(std::string name, ConstMatrixView matrix);
  void Add(std::string name, BasicMatrixView<const double> matrix);
  void Add(std::string name, ConstBf16View matrix);
  void Add(std::string name, std::span<const float> values);
  void Add(std::string name, std::span<const double> values);
  void Add(std::string name, std::span<const int32_t> values);
  void Add(std::string name, std::span<const int64_t> values);
  void Add(std::string name, std::span<const uint64_t> values);
  void Add(std::string name, std::span<const uint8_t> values);
  void Add(std::string name, TensorType type, std::vector<int64_t> shape, std::span<const std::byte> data);
  /// Without a copy, if the rows are contiguous: the values stay as they are until Write.
  void AddView(std::string name, ConstMatrixView matrix);
  /// Values that Write asks for, row by row in pieces of any size, tensor by tensor in the order of names: what is
  /// larger than memory.
  using Producer = std::function<void(const std::function<void(std::span<const float>)>& take)>;
  void AddProduced(std::string name, int64_t rows, int64_t cols, Producer produce);

  void SetMetadata(std::string key, std::string value);

  /// From now on, tensors of which `which` is true are not taken, and not copied. Null: all are.
  void LeaveOut(std::function<bool(std::string_view name)> which) { leave_out_ = std::move(which); }
  /// Names of those that were not taken, in the order in which they came.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Copies what was only viewed, which may change from then on.
  void Own();

  /// Atomic (base/file.h): the old file or the whole new one.
  void Write(const std::filesystem::path& path) const;
  /// Into a new file that the caller commits.
  void Write(AtomicFile& file) const;

 private:
  struct Stored {
    TensorType type;
    std::vector<int64_t> shape;
    std::vector<std::byte> copied;
    std::span<const std::byte> viewed;
    Producer produce;
    size_t bytes;
    std::span<const std::byte> data() const { return copied.empty() ? viewed : std::span(copied); }
  };
  using Order = std::vector<const std::pair<const std::string, Stored>*>;
  void Insert(std::string name, Stored stored);
  bool LeavesOut(const std::string& name);
  std::string Header(const Order& order, const std::string& checksum, const std::filesystem::path& path) const;
  std::string WriteFloats(std::ostream& out) const;
  std::map<std::string, Stored> tensors_;
  TensorMetadata metadata_;
  std::function<bool(std::string_view)> leave_out_;
  std::vector<std::string> left_out_;
};

}  // namespace antiphon
