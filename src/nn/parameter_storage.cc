#include "nn/parameter_storage.h"

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "nn/quantize.h"

namespace antiphon::nn {
namespace {

std::string ScaleName(const Parameter& p) { return p.name + "_scale"; }

int64_t PackedCols(int64_t cols, int64_t per_byte) { return (cols + per_byte - 1) / per_byte; }

// Calls use(r, c) for all values that the mask leaves, in row order.
template <class Use>
void ForKept(const Parameter& p, Use use) {
  if (p.value.empty()) return;  // nor has an outline's mask any
  const Parameter& mask = *p.mask;
  const int64_t block_rows = p.value.rows() / mask.value.rows();
  const int64_t block_cols = p.value.cols() / mask.value.cols();
  for (int64_t r = 0; r < p.value.rows(); ++r) {
    for (int64_t c = 0; c < p.value.cols(); ++c) {
      if (mask.value(r / block_rows, c / block_cols) != 0) use(r, c);
    }
  }
}

TensorView Expect(const SafetensorsReader& reader, const std::string& name, TensorType type,
                  const std::vector<int64_t>& shape) {
  const TensorView& tensor = reader.Tensor(name);
  if (tensor.type != type || tensor.shape != shape) {
    Throw<InputError>("tensor '{}' is {} [{}], expected {} [{}]", name, TensorTypeName(tensor.type),
                      fmt::join(tensor.shape, ", "), TensorTypeName(type), fmt::join(shape, ", "));
  }
  return tensor;
}

std::vector<float> ReadScales(const SafetensorsReader& reader, const Parameter& p) {
  Expect(reader, ScaleName(p), TensorType::kF32, {p.value.rows()});
  return reader.ReadFloats(ScaleName(p));
}

void AddInt8(const Parameter& p, SafetensorsWriter& writer) {
  QuantizedRows q = QuantizeRows(p.value, 8);
  std::vector<int64_t> shape = {q.rows, q.cols};
  if (p.mask != nullptr) {
    std::vector<int8_t> kept;
    ForKept(p, [&](int64_t r, int64_t c) { kept.push_back(q.values[static_cast<size_t>(r * q.cols + c)]); });
    q.values = std::move(kept);
    shape = {std::ssize(q.values)};
  }
  writer.Add(p.name, TensorType::kI8, shape, std::as_bytes(std::span(q.values)));
  writer.Add(ScaleName(p), std::span<const float>(q.scales));
}

void ReadInt8(const SafetensorsReader& reader, Parameter& p) {
  const std::vector<float> scales = ReadScales(reader, p);
  const bool sparse = p.mask != nullptr;
  const TensorView tensor =
      Expect(reader, p.name, TensorType::kI8,
             sparse ? std::vector<int64_t>{NumKept(p)} : std::vector<int64_t>{p.value.rows(), p.value.cols()});
  const auto* q = reinterpret_cast<const int8_t*>(tensor.data.data());
  const auto set = [&](int64_t r, int64_t c) {
    p.value(r, c) = scales[static_cast<size_t>(r)] * static_cast<float>(*q++);
  };
  if (sparse) {
    ForKept(p, set);
    return;
  }
  for (int64_t r = 0; r < p.value.rows(); ++r) {
    for (int64_t c = 0; c < p.value.cols(); ++c) set(r, c);
  }
}

// Packs code(r, c), `bits` wide, into bytes, each row in bytes of its own, the lowest bits first.
template <class Code>
void AddPacked(const Parameter& p, int bits, Code code, SafetensorsWriter& writer) {
  const int64_t per_byte = 8 / bits;
  const int64_t width = PackedCols(p.value.cols(), per_byte);
  std::vector<uint8_t> bytes(static_cast<size_t>(p.value.rows() * width), 0);
  for (int64_t r = 0; r < p.value.rows(); ++r) {
    for (int64_t c = 0; c < p.value.cols(); ++c) {
      auto& byte = bytes[static_cast<size_t>(r * width + c / per_byte)];
      byte = static_cast<uint8_t>(byte | code(r, c) << (c % per_byte * bits));
    }
  }
  writer.Add(p.name, TensorType::kU8, {p.value.rows(), width}, std::as_bytes(std::span(bytes)));
}

template <class Value>
void ReadPacked(const SafetensorsReader& reader, Parameter& p, int bits, Value value) {
  const int64_t per_byte = 8 / bits;
  const int64_t width = PackedCols(p.value.cols(), per_byte);
  const TensorView tensor = Expect(reader, p.name, TensorType::kU8, {p.value.rows(), width});
  for (int64_t r = 0; r < p.value.rows(); ++r) {
    for (int64_t c = 0; c < p.value.cols(); ++c) {
      const auto byte = std::to_integer<unsigned>(tensor.data[static_cast<size_t>(r * width + c / per_byte)]);
      p.value(r, c) = value(r, byte >> (c % per_byte * bits) & ((1u << bits) - 1));
    }
  }
}

void AddInt4(const Parameter& p, SafetensorsWriter& writer) {
  const QuantizedRows q = QuantizeRows(p.value, 4);
  AddPacked(
      p, 4, [&](int64_t r, int64_t c) { return q.values[static_cast<size_t>(r * q.cols + c)] & 15; }, writer);
  writer.Add(ScaleName(p), std::span<const float>(q.scales));
}

void ReadInt4(const SafetensorsReader& reader, Parameter& p) {
  const std::vector<float> scales = ReadScales(reader, p);
  ReadPacked(reader, p, 4, [&](int64_t r, unsigned code) {
    return scales[static_cast<size_t>(r)] *
           static_cast<float>(code < 8 ? static_cast<int>(code) : static_cast<int>(code) - 16);
  });
}

void AddSigns(const Parameter& p, SafetensorsWriter& writer) {
  std::vector<float> scales;
  for (int64_t r = 0; r < p.value.rows(); ++r) scales.push_back(SignScale(p.value.Row(r)));
  AddPacked(
      p, 1, [&](int64_t r, int64_t c) { return p.value(r, c) < 0 ? 1 : 0; }, writer);
  writer.Add(ScaleName(p), std::span<const float>(scales));
}

void ReadSigns(const SafetensorsReader& reader, Parameter& p) {
  const std::vector<float> scales = ReadScales(reader, p);
  ReadPacked(reader, p, 1, [&](int64_t r, unsigned negative) {
    const float scale = scales[static_cast<size_t>(r)];
    return negative != 0 ? -scale : scale;
  });
}

void AddSparseFloats(const Parameter& p, SafetensorsWriter& writer) {
  std::vector<float> kept;
  ForKept(p, [&](int64_t r, int64_t c) { kept.push_back(p.value(r, c)); });
  writer.Add(p.name, std::span<const float>(kept));
}

void ReadSparseFloats(const SafetensorsReader& reader, Parameter& p) {
  Expect(reader, p.name, TensorType::kF32, {NumKept(p)});
  const std::vector<float> kept = reader.ReadFloats(p.name);
  const float* next = kept.data();
  ForKept(p, [&](int64_t r, int64_t c) { p.value(r, c) = *next++; });
}

}  // namespace

int64_t NumKept(const Parameter& p) {
  if (p.mask == nullptr) return p.value.size();
  int64_t count = 0;
  ForKept(p, [&](int64_t, int64_t) { ++count; });
  return count;
}

void AddParameter(const Parameter& p, SafetensorsWriter& writer) {
  switch (p.storage) {
    case Storage::kFloat:
      if (p.mask != nullptr) return AddSparseFloats(p, writer);
      return writer.Add(p.name, p.value);
    case Storage::kInt8:
      return AddInt8(p, writer);
    case Storage::kInt4:
      return AddInt4(p, writer);
    case Storage::kSigns:
      return AddSigns(p, writer);
    case Storage::kBits:
      return AddPacked(
          p, 1, [&](int64_t r, int64_t c) { return p.value(r, c) != 0 ? 1 : 0; }, writer);
  }
}

void ReadParameter(const SafetensorsReader& reader, Parameter& p) {
  switch (p.storage) {
    case Storage::kFloat:
      if (p.mask != nullptr) return ReadSparseFloats(reader, p);
      return reader.ReadInto(p.name, p.value);
    case Storage::kInt8:
      return ReadInt8(reader, p);
    case Storage::kInt4:
      return ReadInt4(reader, p);
    case Storage::kSigns:
      return ReadSigns(reader, p);
    case Storage::kBits:
      return ReadPacked(reader, p, 1, [](int64_t, unsigned bit) { return bit != 0 ? 1.0f : 0.0f; });
  }
}

int64_t StoredBytes(const Parameter& p) {
  const int64_t rows = p.value.rows();
  const int64_t cols = p.value.cols();
  const int64_t scales = rows * static_cast<int64_t>(sizeof(float));
  switch (p.storage) {
    case Storage::kFloat:
      return NumKept(p) * static_cast<int64_t>(sizeof(float));
    case Storage::kInt8:
      return NumKept(p) + scales;
    case Storage::kInt4:
      return rows * PackedCols(cols, 2) + scales;
    case Storage::kSigns:
      return rows * PackedCols(cols, 8) + scales;
    case Storage::kBits:
      return rows * PackedCols(cols, 8);
  }
  return 0;
}

int64_t MostValues(const SafetensorsReader& reader, const std::string& name) {
  const TensorView& tensor = reader.Tensor(name);
  const auto bytes = static_cast<int64_t>(tensor.data.size());
  switch (tensor.type) {
    case TensorType::kI8:
      return bytes;
    case TensorType::kU8:
      return 8 * bytes * (name.ends_with(".mask") ? kMostBlockValues : 1);
    default:
      return bytes / static_cast<int64_t>(sizeof(float));
  }
}

}  // namespace antiphon::nn
