// Values as bytes and back, for messages between processes of one run: same machine type, same program.
//
//   struct Result { std::string text; Matrix frames; template <class V> void VisitFields(V& v) { v(text); v(frames); }
//   }; Packer packer; packer(result); Unpacker(packer.bytes())(other);
//
// Numbers, texts, vectors, maps, pairs, matrices (rows(), cols(), data(), Resize()) and whatever has VisitFields.
// Errors: InputError for bytes that end early.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace antiphon {

template <class T>
concept PlainValue = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;
template <class T>
concept MatrixLike = requires(T m) {
  m.Resize(m.rows(), m.cols()), m.data()[0];
};

class Packer {
 public:
  template <class T>
  void operator()(const T& value) {
    if constexpr (MatrixLike<T>) {
      (*this)(value.rows());
      (*this)(value.cols());
      Append(value.data(), static_cast<size_t>(value.size()) * sizeof(*value.data()));
    } else if constexpr (PlainValue<T>) {
      Append(&value, sizeof value);
    } else {
      // VisitFields serves both directions; packing changes nothing.
      const_cast<T&>(value).VisitFields(*this);
    }
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    Append(text.data(), text.size());
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    if constexpr (PlainValue<T>) {
      Append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) (*this)(value);
    }
  }
  template <class K, class T>
  void operator()(const std::map<K, T>& values) {
    (*this)(values.size());
    for (const auto& [key, value] : values) {
      (*this)(key);
      (*this)(value);
    }
  }

  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  void Append(const void* data, size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }
  std::string bytes_;
};

/// `bytes` outlive it.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <class T>
  void operator()(T& value) {
    if constexpr (MatrixLike<T>) {
      auto rows = value.rows(), cols = value.cols();
      (*this)(rows);
      (*this)(cols);
      value.Resize(rows, cols);
      Extract(value.data(), static_cast<size_t>(value.size()) * sizeof(*value.data()));
    } else if constexpr (PlainValue<T>) {
      Extract(&value, sizeof value);
    } else {
      value.VisitFields(*this);
    }
  }
  void operator()(std::string& text) {
    text.resize(Size(1));
    Extract(text.data(), text.size());
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    if constexpr (PlainValue<T>) {
      values.resize(Size(sizeof(T)));
      Extract(values.data(), values.size() * sizeof(T));
    } else {
      values = std::vector<T>(Size(0));
      for (T& value : values) (*this)(value);
    }
  }
  template <class K, class T>
  void operator()(std::map<K, T>& values) {
    values.clear();
    for (size_t n = Size(0); n > 0; --n) {
      K key{};
      (*this)(key);
      (*this)(values[key]);
    }
  }
  bool empty() const { return left_.empty(); }

 private:
  void Extract(void* data, size_t size) {
    if (size > left_.size()) Throw<InputError>("a message ends {} bytes early", size - left_.size());
    if (size > 0) std::memcpy(data, left_.data(), size);
    left_.remove_prefix(size);
  }
  // A number of elements of so many bytes.
  size_t Size(size_t element_bytes) {
    size_t count = 0;
    (*this)(count);
    if (count > left_.size() / (element_bytes > 0 ? element_bytes : 1)) {
      Throw<InputError>("a message of {} bytes cannot hold {} elements", left_.size(), count);
    }
    return count;
  }
  std::string_view left_;
};

}  // namespace antiphon
