#include "data/archive_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "data/compressed_matrix.h"

namespace antiphon::data {
namespace {

template <class T>
struct MatrixElement {};
template <class R>
struct MatrixElement<BasicMatrix<R>> {
  using type = R;
};
template <class T>
concept IsMatrix = requires {
  typename MatrixElement<T>::type;
};
template <class T>
concept IsIntVector = std::is_same_v<T, std::vector<int32_t>>;

bool TakeBinaryMark(ByteSource& in) {
  if (in.Peek() != '\0') return false;
  in.Get();
  if (in.Get() != 'B') in.Fail("a zero byte without the 'B' that begins a binary value: this is no Kaldi table");
  return true;
}

// A 32-bit number as Kaldi writes it: one byte with its size, then the number.
int32_t ReadInt32(ByteSource& in) {
  const int size = in.Get();
  if (size != 4) in.Fail(fmt::format("expected the size byte 4 of a 32-bit number, found {}", size));
  return in.Read<int32_t>();
}

uint64_t ReadSize(ByteSource& in, uint64_t element_bytes, std::string_view what) {
  const int32_t n = ReadInt32(in);
  if (n < 0) in.Fail(fmt::format("{} of {} elements: the header is broken", what, n));
  in.Require(static_cast<uint64_t>(n) * element_bytes, fmt::format("{} of {} elements", what, n));
  return static_cast<uint64_t>(n);
}

[[noreturn]] void WrongType(ByteSource& in, std::string_view expected, const std::string& found) {
  std::string what = "'" + found.substr(0, 16) + "', which is no type that Antiphon knows";
  if (found == "FM" || found == "DM" || IsCompressedToken(found)) what = "a matrix (" + found + ")";
  if (found == "FV" || found == "DV") what = "a vector (" + found + ")";
  if (found == "SM") what = "a sparse matrix (SM), which is not supported: convert it with Kaldi's copy-feats";
  if (!found.empty() && found[0] == '\4') what = "whole numbers";
  in.Fail(fmt::format("expected {}, found {}", expected, what));
}

struct Shape {
  int32_t rows = 0;
  int32_t cols = 0;
};

Shape ReadShape(ByteSource& in, uint64_t element_bytes) {
  Shape s;
  s.rows = ReadInt32(in);
  s.cols = ReadInt32(in);
  if (s.rows < 0 || s.cols < 0 || (s.rows > 0 && s.cols == 0)) {
    in.Fail(fmt::format("a matrix of {} x {} values is impossible: the header is broken", s.rows, s.cols));
  }
  in.Require(static_cast<uint64_t>(s.rows) * static_cast<uint64_t>(s.cols) * element_bytes,
             fmt::format("a matrix of {} x {} values", s.rows, s.cols));
  return s;
}

template <class Stored, class R>
void ReadElements(ByteSource& in, R* out, uint64_t count) {
  if constexpr (std::is_same_v<Stored, R>) {
    if (count > 0) in.Read(out, count * sizeof(R));
  } else {
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<R>(in.Read<Stored>());
  }
}

template <class R>
BasicMatrix<R> ReadBinaryMatrix(ByteSource& in) {
  const std::string token = in.Token(64);
  if (IsCompressedToken(token)) {
    Matrix m = ReadCompressedMatrix(token, in);
    if constexpr (std::is_same_v<R, float>) {
      return m;
    } else {
      BasicMatrix<R> wide(m.rows(), m.cols());
      for (int64_t i = 0; i < m.size(); ++i) wide.data()[i] = m.data()[i];
      return wide;
    }
  }
  if (token != "FM" && token != "DM") WrongType(in, "a matrix", token);
  const Shape s = ReadShape(in, token == "FM" ? 4 : 8);
  BasicMatrix<R> m(s.rows, s.cols);
  if (token == "FM") ReadElements<float>(in, m.data(), static_cast<uint64_t>(m.size()));
  if (token == "DM") ReadElements<double>(in, m.data(), static_cast<uint64_t>(m.size()));
  return m;
}

template <class R>
std::vector<R> ReadBinaryVector(ByteSource& in) {
  const std::string token = in.Token(64);
  if (token != "FV" && token != "DV") WrongType(in, "a vector", token);
  std::vector<R> v(ReadSize(in, token == "FV" ? 4 : 8, "a vector"));
  if (token == "FV") ReadElements<float>(in, v.data(), v.size());
  if (token == "DV") ReadElements<double>(in, v.data(), v.size());
  return v;
}

std::vector<int32_t> ReadBinaryInts(ByteSource& in) {
  if (in.Peek() != '\4') WrongType(in, "a vector of whole numbers", in.Token(64));
  std::vector<int32_t> v(ReadSize(in, 5, "a vector"));
  for (int32_t& x : v) x = ReadInt32(in);
  return v;
}

template <class N>
N ParseNumber(ByteSource& in, std::string_view word) {
  N value{};
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    in.Fail(fmt::format("expected a number, found '{}'", word.substr(0, 32)));
  }
  return value;
}

// Numbers up to the closing bracket; row_ends gets the count of numbers at the end of each row.
template <class R>
std::vector<R> ReadTextNumbers(ByteSource& in, std::vector<size_t>& row_ends) {
  in.SkipSpaces();
  if (in.Get() != '[') in.Fail("expected '[' in front of the numbers (or the two bytes that begin a binary value)");
  std::vector<R> numbers;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) numbers.push_back(ParseNumber<R>(in, word));
    word.clear();
  };
  const auto end_row = [&] {
    if (numbers.size() > (row_ends.empty() ? 0 : row_ends.back())) row_ends.push_back(numbers.size());
  };
  for (;;) {
    const int c = in.Get();
    if (c < 0) in.Fail("the file ends before the closing ']'");
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == ']') {
      end_word();
      if (c == '\n' || c == ';' || c == ']') end_row();
      if (c == ']') break;
    } else if (word.size() < 64) {
      word.push_back(static_cast<char>(c));
    } else {
      in.Fail("a number of more than 64 characters");
    }
  }
  in.SkipSpaces();
  if (in.Peek() == '\n') in.Get();
  return numbers;
}

template <class R>
BasicMatrix<R> ReadTextMatrix(ByteSource& in) {
  std::vector<size_t> row_ends;
  const std::vector<R> numbers = ReadTextNumbers<R>(in, row_ends);
  if (row_ends.empty()) return {};
  const size_t cols = row_ends[0];
  for (size_t r = 0; r < row_ends.size(); ++r) {
    const size_t found = row_ends[r] - (r == 0 ? 0 : row_ends[r - 1]);
    if (found != cols) in.Fail(fmt::format("row {} has {} numbers, row 0 has {}", r, found, cols));
  }
  BasicMatrix<R> m(static_cast<int64_t>(row_ends.size()), static_cast<int64_t>(cols));
  std::copy(numbers.begin(), numbers.end(), m.data());
  return m;
}

std::vector<int32_t> ReadTextInts(ByteSource& in) {
  std::vector<int32_t> v;
  for (;;) {
    in.SkipSpaces();
    const int c = in.Peek();
    if (c == '\n') in.Get();
    if (c < 0 || c == '\n') return v;
    const std::string word = in.Token(64);
    if (word.empty()) in.Fail("expected a whole number, found a control character");
    v.push_back(ParseNumber<int32_t>(in, word));
  }
}

template <class N>
void AppendRaw(N value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void AppendInt32(int64_t value, std::string& out) {
  if (value > std::numeric_limits<int32_t>::max()) Throw<InputError>("{} is too large for a Kaldi table", value);
  out.push_back('\4');
  AppendRaw(static_cast<int32_t>(value), out);
}

// Real numbers always with a point: readers such as kaldiio take the type from the first one.
template <class N>
void AppendNumber(N value, std::string& out) {
  std::string word = fmt::format("{}", value);
  if (std::is_floating_point_v<N> && std::isfinite(static_cast<double>(value)) && word.find('.') == std::string::npos) {
    word.insert(std::min(word.find('e'), word.size()), ".0");
  }
  out += word;
  out += ' ';
}

template <class R>
void AppendMatrix(const BasicMatrix<R>& m, bool text, MatrixCoding coding, std::string& out) {
  if (text) {
    out += " [";
    for (int64_t r = 0; r < m.rows(); ++r) {
      out += "\n  ";
      for (const R v : m.Row(r)) AppendNumber(v, out);
    }
    out += m.rows() == 0 ? " ]\n" : "]\n";
    return;
  }
  out.append("\0B", 2);
  if (coding != MatrixCoding::kPlain) {
    if constexpr (std::is_same_v<R, float>) {
      return AppendCompressedMatrix(m, coding, out);
    } else {
      Throw<UsageError>("matrices of doubles cannot be written compressed");
    }
  }
  out += std::is_same_v<R, float> ? "FM " : "DM ";
  AppendInt32(m.rows(), out);
  AppendInt32(m.rows() == 0 ? 0 : m.cols(), out);
  out.append(reinterpret_cast<const char*>(m.data()), static_cast<size_t>(m.size()) * sizeof(R));
}

template <class N>
void AppendVector(const std::vector<N>& v, bool text, std::string& out) {
  constexpr bool kInts = std::is_same_v<N, int32_t>;
  if (text) {
    out += kInts ? "" : " [ ";
    for (const N x : v) AppendNumber(x, out);
    out += kInts ? "\n" : "]\n";
    return;
  }
  out.append("\0B", 2);
  if (!kInts) out += std::is_same_v<N, float> ? "FV " : "DV ";
  AppendInt32(static_cast<int64_t>(v.size()), out);
  if constexpr (kInts) {
    for (const N x : v) {
      out.push_back('\4');
      AppendRaw(x, out);
    }
  } else {
    out.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(N));
  }
}

// Bytes of a binary value behind its header.
template <class T>
uint64_t ReadPayloadSize(ByteSource& in) {
  if constexpr (IsMatrix<T>) {
    const std::string token = in.Token(64);
    if (token != "FM" && token != "DM") WrongType(in, "a matrix", token);
    const uint64_t element = token == "FM" ? 4 : 8;
    const Shape s = ReadShape(in, element);
    return static_cast<uint64_t>(s.rows) * static_cast<uint64_t>(s.cols) * element;
  } else if constexpr (IsIntVector<T>) {
    if (in.Peek() != '\4') WrongType(in, "a vector of whole numbers", in.Token(64));
    return 5 * ReadSize(in, 5, "a vector");
  } else {
    const std::string token = in.Token(64);
    if (token != "FV" && token != "DV") WrongType(in, "a vector", token);
    const uint64_t element = token == "FV" ? 4 : 8;
    return element * ReadSize(in, element, "a vector");
  }
}

template <class T>
T ReadBinary(ByteSource& in) {
  if constexpr (IsMatrix<T>) {
    return ReadBinaryMatrix<typename MatrixElement<T>::type>(in);
  } else if constexpr (IsIntVector<T>) {
    return ReadBinaryInts(in);
  } else {
    return ReadBinaryVector<typename T::value_type>(in);
  }
}

template <class T>
T ReadText(ByteSource& in) {
  if constexpr (IsMatrix<T>) {
    return ReadTextMatrix<typename MatrixElement<T>::type>(in);
  } else if constexpr (IsIntVector<T>) {
    return ReadTextInts(in);
  } else {
    std::vector<size_t> row_ends;
    return ReadTextNumbers<typename T::value_type>(in, row_ends);
  }
}

}  // namespace

template <class T>
T ReadValue(ByteSource& in) {
  return TakeBinaryMark(in) ? ReadBinary<T>(in) : ReadText<T>(in);
}

template <class T>
void SkipValue(ByteSource& in) {
  if (!TakeBinaryMark(in)) {
    ReadText<T>(in);
  } else if (IsMatrix<T> && in.Peek() == 'C') {
    SkipCompressedMatrix(in.Token(64), in);
  } else {
    in.Skip(ReadPayloadSize<T>(in));
  }
}

template <class T>
void AppendValue(const T& value, bool text, MatrixCoding coding, std::string& out) {
  if constexpr (IsMatrix<T>) {
    AppendMatrix(value, text, coding, out);
  } else {
    AppendVector(value, text, out);
  }
}

template <class T>
void RequireFinite(const T& value) {
  if constexpr (IsMatrix<T>) {
    for (int64_t i = 0; i < value.size(); ++i) {
      if (std::isfinite(value.data()[i])) continue;
      Throw<InputError>("row {}, column {} holds {}; expected finite numbers", i / value.cols(), i % value.cols(),
                        value.data()[i]);
    }
  } else if constexpr (!IsIntVector<T>) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (!std::isfinite(value[i])) Throw<InputError>("element {} is {}; expected finite numbers", i, value[i]);
    }
  }
}

#define ANTIPHON_INSTANTIATE(T)                                                 \
  template T ReadValue<T>(ByteSource&);                                         \
  template void SkipValue<T>(ByteSource&);                                      \
  template void AppendValue<T>(const T&, bool, MatrixCoding, std::string& out); \
  template void RequireFinite<T>(const T&);
ANTIPHON_INSTANTIATE(Matrix)
ANTIPHON_INSTANTIATE(DoubleMatrix)
ANTIPHON_INSTANTIATE(std::vector<float>)
ANTIPHON_INSTANTIATE(std::vector<double>)
ANTIPHON_INSTANTIATE(std::vector<int32_t>)
#undef ANTIPHON_INSTANTIATE

}  // namespace antiphon::data
