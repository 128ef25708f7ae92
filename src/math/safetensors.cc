#include "math/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "math/safetensors_checksum.h"

namespace antiphon {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

struct TypeEntry {
  TensorType type;
  const char* name;
  size_t bytes;
};
constexpr std::array<TypeEntry, 10> kTypes = {{{TensorType::kF32, "F32", 4},
                                               {TensorType::kF64, "F64", 8},
                                               {TensorType::kF16, "F16", 2},
                                               {TensorType::kBf16, "BF16", 2},
                                               {TensorType::kI8, "I8", 1},
                                               {TensorType::kU8, "U8", 1},
                                               {TensorType::kI16, "I16", 2},
                                               {TensorType::kI32, "I32", 4},
                                               {TensorType::kI64, "I64", 8},
                                               {TensorType::kU64, "U64", 8}}};

const TypeEntry& Entry(TensorType type) { return kTypes[static_cast<size_t>(type)]; }

TensorType ParseType(const std::string& name, const std::string& tensor) {
  for (const TypeEntry& e : kTypes) {
    if (name == e.name) return e.type;
  }
  Throw<InputError>("tensor '{}' has type '{}', which is not supported", tensor, name);
}

std::string ShapeText(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Whole non-negative number or InputError.
int64_t ParseCount(const Json& json, const std::string& tensor, const char* what) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    Throw<InputError>("tensor '{}': {} must be whole numbers from 0, found {}", tensor, what,
                      json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return static_cast<int64_t>(json.get<uint64_t>());
}

TensorView ParseTensor(const std::string& name, const Json& json, std::span<const std::byte> data) {
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets") ||
      !json["dtype"].is_string() || !json["shape"].is_array() || !json["data_offsets"].is_array() ||
      json["data_offsets"].size() != 2) {
    Throw<InputError>("tensor '{}' needs dtype, shape and two data_offsets", name);
  }
  TensorView view;
  view.type = ParseType(json["dtype"].get<std::string>(), name);
  uint64_t bytes = TensorTypeBytes(view.type);
  for (const Json& d : json["shape"]) {
    view.shape.push_back(ParseCount(d, name, "the sizes of its shape"));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(view.shape.back()), &bytes)) {
      Throw<InputError>("tensor '{}' has the impossible shape {}", name, ShapeText(view.shape));
    }
  }
  const int64_t begin = ParseCount(json["data_offsets"][0], name, "data_offsets");
  const int64_t end = ParseCount(json["data_offsets"][1], name, "data_offsets");
  if (begin > end || static_cast<uint64_t>(end) > data.size()) {
    Throw<InputError>(
        "tensor '{}' lies at bytes {} to {}, but the file holds {} bytes of data: it is cut short or damaged", name,
        begin, end, data.size());
  }
  if (static_cast<uint64_t>(end - begin) != bytes) {
    Throw<InputError>("tensor '{}' of shape {} and type {} needs {} bytes, but {} are given", name,
                      ShapeText(view.shape), TensorTypeName(view.type), bytes, end - begin);
  }
  view.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  return view;
}

TensorMetadata ParseMetadata(const Json& json) {
  if (!json.is_object()) Throw<InputError>("__metadata__ must be an object of texts");
  TensorMetadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) Throw<InputError>("__metadata__ key '{}' must be a text", key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Tensors must fill the data without gaps or overlaps, as the format demands.
void CheckCoverage(const std::map<std::string, TensorView, std::less<>>& tensors, std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, const std::byte*>> pieces;
  for (const auto& [name, t] : tensors) pieces.emplace_back(t.data.data(), t.data.data() + t.data.size());
  std::sort(pieces.begin(), pieces.end());
  const std::byte* at = data.data();
  for (const auto& [begin, end] : pieces) {
    if (begin != at) Throw<InputError>("tensors overlap or leave gaps at byte {} of the data", at - data.data());
    at = end;
  }
  if (at != data.data() + data.size()) {
    Throw<InputError>("the tensors cover {} of {} bytes of data", at - data.data(), data.size());
  }
}

float HalfToFloat(uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  const float sign = (h & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * HUGE_VALF;
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

template <class T>
T LoadAs(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Element i as a real number; the type was checked before.
double RealAt(const TensorView& t, size_t i) {
  const std::byte* p = t.data.data() + i * TensorTypeBytes(t.type);
  switch (t.type) {
    case TensorType::kF32:
      return static_cast<double>(LoadAs<float>(p));
    case TensorType::kF64:
      return LoadAs<double>(p);
    case TensorType::kF16:
      return static_cast<double>(HalfToFloat(LoadAs<uint16_t>(p)));
    default:
      return static_cast<double>(ToFloat(LoadAs<Bf16>(p)));
  }
}

int64_t IntAt(const TensorView& t, size_t i, std::string_view name) {
  const std::byte* p = t.data.data() + i * TensorTypeBytes(t.type);
  switch (t.type) {
    case TensorType::kI8:
      return LoadAs<int8_t>(p);
    case TensorType::kU8:
      return LoadAs<uint8_t>(p);
    case TensorType::kI16:
      return LoadAs<int16_t>(p);
    case TensorType::kI32:
      return LoadAs<int32_t>(p);
    case TensorType::kI64:
      return LoadAs<int64_t>(p);
    case TensorType::kU64: {
      const auto value = LoadAs<uint64_t>(p);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        Throw<InputError>("tensor '{}': element {} does not fit 63 bits", name, i);
      }
      return static_cast<int64_t>(value);
    }
    default:
      Throw<InputError>("tensor '{}' must hold whole numbers, found type {}", name, TensorTypeName(t.type));
  }
}

void ExpectReal(const TensorView& t, std::string_view name, size_t dims) {
  if (t.type != TensorType::kF32 && t.type != TensorType::kF64 && t.type != TensorType::kF16 &&
      t.type != TensorType::kBf16) {
    Throw<InputError>("tensor '{}' must hold real numbers, found type {}", name, TensorTypeName(t.type));
  }
  if (t.shape.size() != dims) {
    Throw<InputError>("tensor '{}' must have {} dimension(s), found shape {}", name, dims, ShapeText(t.shape));
  }
}

template <class T>
void CopyReals(const TensorView& t, T* target) {
  const size_t count = t.data.size() / TensorTypeBytes(t.type);
  const bool same = (t.type == TensorType::kF32 && std::is_same_v<T, float>) ||
                    (t.type == TensorType::kF64 && std::is_same_v<T, double>);
  if (same) {
    if (count > 0) std::memcpy(target, t.data.data(), t.data.size());
    return;
  }
  for (size_t i = 0; i < count; ++i) target[i] = static_cast<T>(RealAt(t, i));
}

}  // namespace

std::string_view TensorTypeName(TensorType type) { return Entry(type).name; }
size_t TensorTypeBytes(TensorType type) { return Entry(type).bytes; }

namespace {

// By the mark in the head of its first member.
bool IsTar(std::span<const std::byte> bytes) {
  constexpr size_t kPlace = 257;
  constexpr std::string_view kMark = "ustar";
  return bytes.size() > kPlace + kMark.size() && std::memcmp(bytes.data() + kPlace, kMark.data(), kMark.size()) == 0;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path), path_(path) {
  Parse(file_->bytes());
}

SafetensorsReader::SafetensorsReader(std::span<const std::byte> bytes, std::filesystem::path name)
    : path_(std::move(name)) {
  Parse(bytes);
}

void SafetensorsReader::Parse(std::span<const std::byte> bytes) {
  WithContext(
      [&] {
        if (bytes.size() < 8) Throw<InputError>("a safetensors file has at least 8 bytes, found {}", bytes.size());
        if (IsTar(bytes)) {
          throw InputError(
              "this is an archive (tar), as 'antiphon bundle' makes them: name a file in it, such as "
              "NAME.antiphon/model.safetensors");
        }
        const auto header_bytes = LoadAs<uint64_t>(bytes.data());
        if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - 8) {
          Throw<InputError>(
              "the header claims {} bytes, but the file has {}: it is cut short, damaged or not safetensors",
              header_bytes, bytes.size());
        }
        const auto* text = reinterpret_cast<const char*>(bytes.data() + 8);
        Json header;
        try {
          header = Json::parse(text, text + header_bytes);
        } catch (const Json::exception& e) {
          Throw<InputError>("the header is no JSON ({}): the file is damaged or not safetensors", e.what());
        }
        if (!header.is_object()) Throw<InputError>("the header must be a JSON object");
        const auto data = bytes.subspan(8 + header_bytes);
        for (const auto& [name, json] : header.items()) {
          if (name == "__metadata__") {
            metadata_ = ParseMetadata(json);
          } else {
            tensors_[name] = ParseTensor(name, json, data);
          }
        }
        CheckCoverage(tensors_, data);
        const auto sum = metadata_.find(internal::kChecksumKey);
        if (sum == metadata_.end()) return;
        internal::ChecksumBuilder builder;
        builder.AddMetadata(metadata_);
        for (const auto& [name, t] : tensors_) builder.AddTensor(name, t.type, t.shape, t.data);
        if (builder.Hex() != sum->second) {
          Throw<InputError>(
              "the checksum says {}, the contents give {}: the file was changed or damaged after it was "
              "written; take a fresh copy",
              sum->second, builder.Hex());
        }
      },
      [&] { return fmt::format("reading '{}'", path_.string()); });
}

const std::string& SafetensorsReader::Metadata(std::string_view key) const {
  const auto it = metadata_.find(std::string(key));
  if (it == metadata_.end()) Throw<InputError>("'{}' holds no metadata '{}'", path().string(), key);
  return it->second;
}

std::string SafetensorsReader::MetadataOr(std::string_view key, std::string fallback) const {
  if (const auto it = metadata_.find(std::string(key)); it != metadata_.end()) fallback = it->second;
  return fallback;
}

std::vector<std::string> SafetensorsReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, t] : tensors_) names.push_back(name);
  return names;
}

bool SafetensorsReader::Has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

const TensorView& SafetensorsReader::Tensor(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) Throw<InputError>("'{}' holds no tensor '{}'", path().string(), name);
  return it->second;
}

void SafetensorsReader::Adopt(std::shared_ptr<const SafetensorsReader> other, std::span<const std::string> names) {
  for (const std::string& name : names) tensors_[name] = other->Tensor(name);
  other_ = std::move(other);
}

void SafetensorsReader::Replace(const std::string& name, std::vector<float> values) {
  const std::vector<float>& kept = replaced_[name] = std::move(values);
  tensors_[name] = {TensorType::kF32, {1, std::ssize(kept)}, std::as_bytes(std::span(kept))};
}

Matrix SafetensorsReader::ReadMatrix(std::string_view name) const {
  const TensorView& t = Tensor(name);
  WithContext([&] { ExpectReal(t, name, 2); }, [&] { return fmt::format("reading '{}'", path().string()); });
  Matrix m;
  m.Resize(t.shape[0], t.shape[1]);
  CopyReals(t, m.data());
  return m;
}

DoubleMatrix SafetensorsReader::ReadDoubleMatrix(std::string_view name) const {
  const TensorView& t = Tensor(name);
  WithContext([&] { ExpectReal(t, name, 2); }, [&] { return fmt::format("reading '{}'", path().string()); });
  DoubleMatrix m;
  m.Resize(t.shape[0], t.shape[1]);
  CopyReals(t, m.data());
  return m;
}

std::vector<float> SafetensorsReader::ReadFloats(std::string_view name) const {
  const TensorView& t = Tensor(name);
  WithContext([&] { ExpectReal(t, name, 1); }, [&] { return fmt::format("reading '{}'", path().string()); });
  std::vector<float> values(static_cast<size_t>(t.shape[0]));
  CopyReals(t, values.data());
  return values;
}

std::vector<double> SafetensorsReader::ReadDoubles(std::string_view name) const {
  const TensorView& t = Tensor(name);
  WithContext([&] { ExpectReal(t, name, 1); }, [&] { return fmt::format("reading '{}'", path().string()); });
  std::vector<double> values(static_cast<size_t>(t.shape[0]));
  CopyReals(t, values.data());
  return values;
}

std::vector<int64_t> SafetensorsReader::ReadInts(std::string_view name) const {
  return WithContext(
      [&] {
        const TensorView& t = Tensor(name);
        if (t.shape.size() != 1) {
          Throw<InputError>("tensor '{}' must have 1 dimension, found shape {}", name, ShapeText(t.shape));
        }
        std::vector<int64_t> values(static_cast<size_t>(t.shape[0]));
        for (size_t i = 0; i < values.size(); ++i) values[i] = IntAt(t, i, name);
        return values;
      },
      [&] { return fmt::format("reading '{}'", path().string()); });
}

void SafetensorsReader::ReadInto(std::string_view name, MatrixView target) const {
  const TensorView& t = Tensor(name);
  if (t.shape != std::vector<int64_t>{target.rows(), target.cols()}) {
    Throw<InputError>("'{}': tensor '{}' has shape {}, expected [{}, {}]", path().string(), name, ShapeText(t.shape),
                      target.rows(), target.cols());
  }
  if (t.type == TensorType::kF32) {
    const size_t row_bytes = static_cast<size_t>(target.cols()) * sizeof(float);
    for (int64_t r = 0; r < target.rows() && row_bytes > 0; ++r) {
      std::memcpy(target.Row(r).data(), t.data.data() + static_cast<size_t>(r) * row_bytes, row_bytes);
    }
    return;
  }
  const Matrix m = ReadMatrix(name);
  for (int64_t r = 0; r < target.rows(); ++r) std::copy_n(m.Row(r).data(), target.cols(), target.Row(r).data());
}

}  // namespace antiphon
