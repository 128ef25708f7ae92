#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "math/safetensors.h"
#include "math/safetensors_checksum.h"

namespace antiphon {
namespace {

using Json = nlohmann::json;

template <class T>
std::vector<std::byte> PackRows(BasicMatrixView<const T> m) {
  std::vector<std::byte> bytes(static_cast<size_t>(m.size()) * sizeof(T));
  const size_t row_bytes = static_cast<size_t>(m.cols()) * sizeof(T);
  for (int64_t r = 0; r < m.rows() && row_bytes > 0; ++r) {
    std::memcpy(bytes.data() + static_cast<size_t>(r) * row_bytes, m.Row(r).data(), row_bytes);
  }
  return bytes;
}

void Put(std::ostream& out, std::span<const std::byte> data) {
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

}  // namespace

void SafetensorsWriter::Insert(std::string name, Stored stored) {
  uint64_t bytes = TensorTypeBytes(stored.type);
  for (const int64_t d : stored.shape) bytes *= static_cast<uint64_t>(d);
  if (!stored.produce) CHECK_EQ(bytes, stored.data().size()) << name;
  stored.bytes = bytes;
  CHECK(name != "__metadata__");
  const bool fresh = tensors_.emplace(name, std::move(stored)).second;
  CHECK(fresh) << "tensor " << name << " is given twice";
}

bool SafetensorsWriter::LeavesOut(const std::string& name) {
  if (!leave_out_ || !leave_out_(name)) return false;
  left_out_.push_back(name);
  return true;
}

void SafetensorsWriter::Own() {
  for (auto& [name, tensor] : tensors_) {
    CHECK(!tensor.produce) << name;
    if (tensor.viewed.empty()) continue;
    tensor.copied.assign(tensor.viewed.begin(), tensor.viewed.end());
    tensor.viewed = {};
  }
}

void SafetensorsWriter::Add(std::string name, TensorType type, std::vector<int64_t> shape,
                            std::span<const std::byte> data) {
  if (LeavesOut(name)) return;
  Insert(std::move(name), {type, std::move(shape), {data.begin(), data.end()}, {}, {}, 0});
}

void SafetensorsWriter::AddView(std::string name, ConstMatrixView m) {
  if (!m.contiguous()) return Add(std::move(name), m);
  if (LeavesOut(name)) return;
  const std::span<const float> values(m.data(), static_cast<size_t>(m.size()));
  Insert(std::move(name), {TensorType::kF32, {m.rows(), m.cols()}, {}, std::as_bytes(values), {}, 0});
}

void SafetensorsWriter::AddProduced(std::string name, int64_t rows, int64_t cols, Producer produce) {
  if (LeavesOut(name)) return;
  Insert(std::move(name), {TensorType::kF32, {rows, cols}, {}, {}, std::move(produce), 0});
}

void SafetensorsWriter::Add(std::string name, ConstMatrixView m) {
  Add(std::move(name), TensorType::kF32, {m.rows(), m.cols()}, PackRows(m));
}
void SafetensorsWriter::Add(std::string name, BasicMatrixView<const double> m) {
  Add(std::move(name), TensorType::kF64, {m.rows(), m.cols()}, PackRows(m));
}
void SafetensorsWriter::Add(std::string name, ConstBf16View m) {
  Add(std::move(name), TensorType::kBf16, {m.rows(), m.cols()}, PackRows(m));
}
void SafetensorsWriter::Add(std::string name, std::span<const float> v) {
  Add(std::move(name), TensorType::kF32, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}
void SafetensorsWriter::Add(std::string name, std::span<const double> v) {
  Add(std::move(name), TensorType::kF64, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}
void SafetensorsWriter::Add(std::string name, std::span<const int32_t> v) {
  Add(std::move(name), TensorType::kI32, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}
void SafetensorsWriter::Add(std::string name, std::span<const int64_t> v) {
  Add(std::move(name), TensorType::kI64, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}
void SafetensorsWriter::Add(std::string name, std::span<const uint64_t> v) {
  Add(std::move(name), TensorType::kU64, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}
void SafetensorsWriter::Add(std::string name, std::span<const uint8_t> v) {
  Add(std::move(name), TensorType::kU8, {static_cast<int64_t>(v.size())}, std::as_bytes(v));
}

void SafetensorsWriter::SetMetadata(std::string key, std::string value) {
  metadata_[std::move(key)] = std::move(value);
}

std::string SafetensorsWriter::Header(const Order& order, const std::string& checksum,
                                      const std::filesystem::path& path) const {
  Json header = Json::object();
  header["__metadata__"] = metadata_;
  header["__metadata__"][internal::kChecksumKey] = checksum;
  uint64_t at = 0;
  for (const auto* entry : order) {
    const Stored& t = entry->second;
    header[entry->first] = {
        {"dtype", TensorTypeName(t.type)}, {"shape", t.shape}, {"data_offsets", {at, at + t.bytes}}};
    at += t.bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& e) {
    Throw<InputError>("'{}' cannot be written: its names or texts are not UTF-8 ({})", path.string(), e.what());
  }
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  return text;
}

// Goes through all tensors by name, as the checksum wants it; those of type F32, which stand in the file in this order,
// are written meanwhile.
std::string SafetensorsWriter::WriteFloats(std::ostream& out) const {
  internal::ChecksumBuilder builder;
  builder.AddMetadata(metadata_);
  for (const auto& [name, t] : tensors_) {
    builder.BeginTensor(name, t.type, t.shape, t.bytes);
    size_t taken = 0;
    const bool write = t.type == TensorType::kF32;
    const auto take = [&](std::span<const std::byte> piece) {
      builder.AddData(piece);
      if (write) Put(out, piece);
      taken += piece.size();
    };
    if (t.produce) {
      t.produce([&](std::span<const float> piece) { take(std::as_bytes(piece)); });
    } else {
      take(t.data());
    }
    CHECK_EQ(taken, t.bytes) << name;
  }
  return builder.Hex();
}

void SafetensorsWriter::Write(const std::filesystem::path& path) const {
  AtomicFile file(path);
  Write(file);
  file.Commit();
}

void SafetensorsWriter::Write(AtomicFile& file) const {
  std::ostream& out = file.stream();
  // Wider types first, so that every tensor is aligned for its type.
  Order order;
  for (const auto& entry : tensors_) order.push_back(&entry);
  const auto width = [](const auto* entry) { return TensorTypeBytes(entry->second.type); };
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    const bool floats_last_of_a = a->second.type == TensorType::kF32;
    const bool floats_last_of_b = b->second.type == TensorType::kF32;
    return width(a) != width(b) ? width(a) > width(b) : floats_last_of_a < floats_last_of_b;
  });
  // The checksum is known when everything has been seen; it has as many digits as what stands in for it.
  const std::string text = Header(order, internal::ChecksumBuilder().Hex(), file.path());
  const uint64_t header_bytes = text.size();
  Put(out, std::as_bytes(std::span(&header_bytes, 1)));
  Put(out, std::as_bytes(std::span(text)));
  std::string checksum;
  for (const auto* entry : order) {
    if (entry->second.type != TensorType::kF32) {
      Put(out, entry->second.data());
    } else if (checksum.empty()) {
      checksum = WriteFloats(out);
    }
  }
  if (checksum.empty()) checksum = WriteFloats(out);
  out.seekp(static_cast<std::streamoff>(sizeof(header_bytes)));
  const std::string final_text = Header(order, checksum, file.path());
  Put(out, std::as_bytes(std::span(final_text)));
  file.CheckStream();  // here errno still says why
}

}  // namespace antiphon
