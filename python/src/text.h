// Text between Python and the library, which knows bytes. Names of files, keys and words are UTF-8 as a rule; what is
// not goes both ways as Python has names of files (surrogateescape, PEP 383), so that it comes back as it was.
//
// In place of nanobind/stl/string.h, which refuses it.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace antiphon::python {

/// For people: what is no UTF-8 shows as U+FFFD.
inline nanobind::object Readable(std::string_view text) {
  return nanobind::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

}  // namespace antiphon::python

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    const object bytes = steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
    char* text = nullptr;
    Py_ssize_t size = 0;
    if (!bytes.is_valid() || PyBytes_AsStringAndSize(bytes.ptr(), &text, &size) != 0) {
      PyErr_Clear();
      return false;
    }
    value.assign(text, static_cast<size_t>(size));
    return true;
  }

  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  }
};

}  // namespace nanobind::detail
