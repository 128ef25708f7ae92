#include "data/compressed_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"

namespace antiphon::data {
namespace {

struct GlobalHeader {
  float min_value = 0.0f;
  float range = 0.0f;
  int32_t num_rows = 0;
  int32_t num_cols = 0;
};

// The 0th, 25th, 75th and 100th percentile of a column, as steps of the matrix's range.
using ColumnHeader = std::array<uint16_t, 4>;
using Percentiles = std::array<float, 4>;

float FromStep16(const GlobalHeader& h, uint16_t step) {
  return h.min_value + h.range * 1.52590218966964e-05f * static_cast<float>(step);
}
float FromStep8(const GlobalHeader& h, uint8_t step) {
  return h.min_value + h.range * (1.0f / 255.0f) * static_cast<float>(step);
}

// 0.499, as Kaldi has it, rounds to nearest and never past the last step.
template <class Step>
Step ToStep(const GlobalHeader& h, float value, float last_step) {
  const float f = std::clamp((value - h.min_value) / h.range, 0.0f, 1.0f);
  return static_cast<Step>(static_cast<int>(f * last_step + 0.499f));
}

float FromColumnByte(const Percentiles& p, uint8_t byte) {
  const auto b = static_cast<float>(byte);
  if (byte <= 64) return p[0] + (p[1] - p[0]) * b * (1.0f / 64.0f);
  if (byte <= 192) return p[1] + (p[2] - p[1]) * (b - 64.0f) * (1.0f / 128.0f);
  return p[2] + (p[3] - p[2]) * (b - 192.0f) * (1.0f / 63.0f);
}

uint8_t ToColumnByte(const Percentiles& p, float value) {
  int byte = 0;
  if (value < p[1]) {
    byte = std::clamp(static_cast<int>((value - p[0]) / (p[1] - p[0]) * 64.0f + 0.5f), 0, 64);
  } else if (value < p[2]) {
    byte = std::clamp(64 + static_cast<int>((value - p[1]) / (p[2] - p[1]) * 128.0f + 0.5f), 64, 192);
  } else {
    byte = std::clamp(192 + static_cast<int>((value - p[2]) / (p[3] - p[2]) * 63.0f + 0.5f), 192, 255);
  }
  return static_cast<uint8_t>(byte);
}

Percentiles Decode(const GlobalHeader& h, const ColumnHeader& column) {
  return {FromStep16(h, column[0]), FromStep16(h, column[1]), FromStep16(h, column[2]), FromStep16(h, column[3])};
}

// Strictly rising, so that no interval is empty.
ColumnHeader MakeColumnHeader(const GlobalHeader& h, std::vector<float>& column) {
  std::sort(column.begin(), column.end());
  const size_t n = column.size();
  const auto at = [&](size_t i) { return ToStep<uint16_t>(h, column[i], 65535.0f); };
  ColumnHeader c{};
  if (n >= 5) {
    c[0] = std::min<uint16_t>(at(0), 65532);
    c[1] = std::min<uint16_t>(std::max<uint16_t>(at(n / 4), c[0] + 1), 65533);
    c[2] = std::min<uint16_t>(std::max<uint16_t>(at(3 * (n / 4)), c[1] + 1), 65534);
    c[3] = std::max<uint16_t>(at(n - 1), c[2] + 1);
    return c;
  }
  // Fewer rows than percentiles: the rows themselves, and steps above them.
  c[0] = std::min<uint16_t>(at(0), 65532);
  for (size_t i = 1; i < 4; ++i) {
    const auto above = static_cast<uint16_t>(c[i - 1] + 1);
    const auto limit = static_cast<uint16_t>(65532 + i);
    c[i] = n > i ? std::min(std::max(at(i), above), limit) : above;
  }
  return c;
}

GlobalHeader MakeGlobalHeader(ConstMatrixView m) {
  GlobalHeader h{.num_rows = static_cast<int32_t>(m.rows()), .num_cols = static_cast<int32_t>(m.cols())};
  if (m.empty()) return h;
  float low = m(0, 0);
  float high = low;
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (const float v : m.Row(r)) {
      if (!std::isfinite(v)) Throw<InputError>("row {} holds {}, which a compressed matrix cannot", r, v);
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  h.min_value = low;
  h.range = high - low;
  if (!std::isfinite(h.range)) Throw<InputError>("the values {} and {} are too far apart to be compressed", low, high);
  if (high == low) h.range = 1.0f + std::fabs(low);
  return h;
}

template <class T>
void AppendBytesOf(const T& value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendColumns8(const GlobalHeader& h, ConstMatrixView m, std::string& out) {
  std::vector<Percentiles> percentiles;
  std::vector<float> column(static_cast<size_t>(m.rows()));
  for (int64_t c = 0; c < m.cols(); ++c) {
    for (int64_t r = 0; r < m.rows(); ++r) column[static_cast<size_t>(r)] = m(r, c);
    const ColumnHeader header = MakeColumnHeader(h, column);
    AppendBytesOf(header, out);
    percentiles.push_back(Decode(h, header));
  }
  for (int64_t c = 0; c < m.cols(); ++c) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      out.push_back(static_cast<char>(ToColumnByte(percentiles[static_cast<size_t>(c)], m(r, c))));
    }
  }
}

Matrix ReadColumns8(const GlobalHeader& h, ByteSource& in) {
  std::vector<ColumnHeader> headers(static_cast<size_t>(h.num_cols));
  in.Read(headers.data(), headers.size() * sizeof(ColumnHeader));
  Matrix m(h.num_rows, h.num_cols);
  std::vector<uint8_t> column(static_cast<size_t>(h.num_rows));
  for (int64_t c = 0; c < h.num_cols; ++c) {
    in.Read(column.data(), column.size());
    const Percentiles p = Decode(h, headers[static_cast<size_t>(c)]);
    for (int64_t r = 0; r < h.num_rows; ++r) m(r, c) = FromColumnByte(p, column[static_cast<size_t>(r)]);
  }
  return m;
}

template <class Step, class FromStep>
Matrix ReadGlobal(const GlobalHeader& h, ByteSource& in, FromStep from_step) {
  Matrix m(h.num_rows, h.num_cols);
  std::vector<Step> row(static_cast<size_t>(h.num_cols));
  for (int64_t r = 0; r < h.num_rows; ++r) {
    in.Read(row.data(), row.size() * sizeof(Step));
    for (int64_t c = 0; c < h.num_cols; ++c) m(r, c) = from_step(h, row[static_cast<size_t>(c)]);
  }
  return m;
}

uint64_t PayloadBytes(std::string_view token, const GlobalHeader& h) {
  if (h.num_rows == 0) return 0;
  const uint64_t step_bytes = token == "CM2" ? 2 : 1;
  const uint64_t header_bytes = token == "CM" ? sizeof(ColumnHeader) * static_cast<uint64_t>(h.num_cols) : 0;
  return header_bytes + step_bytes * static_cast<uint64_t>(h.num_rows) * static_cast<uint64_t>(h.num_cols);
}

GlobalHeader ReadMatrixHeader(std::string_view token, ByteSource& in) {
  const auto h = in.Read<GlobalHeader>();
  if (h.num_rows < 0 || h.num_cols < 0 || (h.num_rows > 0 && h.num_cols == 0)) {
    in.Fail(fmt::format("a compressed matrix of {} x {} values is impossible: the header is broken", h.num_rows,
                        h.num_cols));
  }
  in.Require(PayloadBytes(token, h), fmt::format("a compressed matrix of {} x {} values", h.num_rows, h.num_cols));
  return h;
}

}  // namespace

bool IsCompressedToken(std::string_view token) { return token == "CM" || token == "CM2" || token == "CM3"; }

Matrix ReadCompressedMatrix(std::string_view token, ByteSource& in) {
  const GlobalHeader h = ReadMatrixHeader(token, in);
  if (h.num_rows == 0) return {};
  if (token == "CM") return ReadColumns8(h, in);
  if (token == "CM2") return ReadGlobal<uint16_t>(h, in, FromStep16);
  return ReadGlobal<uint8_t>(h, in, FromStep8);
}

void SkipCompressedMatrix(std::string_view token, ByteSource& in) {
  if (!IsCompressedToken(token)) in.Fail(fmt::format("expected a matrix, found '{}'", token));
  in.Skip(PayloadBytes(token, ReadMatrixHeader(token, in)));
}

void AppendCompressedMatrix(ConstMatrixView m, MatrixCoding coding, std::string& out) {
  const GlobalHeader h = MakeGlobalHeader(m);
  out += coding == MatrixCoding::kColumns8 ? "CM " : coding == MatrixCoding::kGlobal16 ? "CM2 " : "CM3 ";
  AppendBytesOf(h, out);
  if (m.empty()) return;
  if (coding == MatrixCoding::kColumns8) return AppendColumns8(h, m, out);
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (const float v : m.Row(r)) {
      if (coding == MatrixCoding::kGlobal16) AppendBytesOf(ToStep<uint16_t>(h, v, 65535.0f), out);
      if (coding == MatrixCoding::kGlobal8) AppendBytesOf(ToStep<uint8_t>(h, v, 255.0f), out);
    }
  }
}

Matrix AsStored(ConstMatrixView matrix, MatrixCoding coding) {
  if (coding == MatrixCoding::kPlain) return Matrix(matrix);
  std::string bytes;
  AppendCompressedMatrix(matrix, coding, bytes);
  const auto source = MakeMemorySource(std::as_bytes(std::span(bytes)), "(features)");
  const std::string token = source->Token();
  return ReadCompressedMatrix(token, *source);
}

}  // namespace antiphon::data
