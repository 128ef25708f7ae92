// What the parts of the extension module antiphon._core share.
//
// The module is thin: it takes and gives values, arrays and plain tuples, gives the interpreter's lock away
// around everything that takes time (interpreter_lock.h), and leaves checks of types, defaults and docstrings to the
// package's Python files.
//
// Arrays: arguments are C-contiguous and of the type that they name (the package sees to it); results own their memory,
// which NumPy and DLPack share without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "interpreter_lock.h"
#include "text.h"

namespace antiphon::python {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Array>
auto SpanOf(const Array& array) {
  return std::span(array.data(), array.size());
}

/// A capsule that keeps `value` until the last array over it goes.
template <class T>
nb::capsule Keep(std::unique_ptr<T> value) {
  return nb::capsule(value.release(), [](void* p) noexcept { delete static_cast<T*>(p); });
}

/// The array takes the vector's memory.
template <class T>
nb::ndarray<nb::numpy, T> ArrayOf(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = kept->data();
  return nb::ndarray<nb::numpy, T>(data, shape, Keep(std::move(kept)));
}

void BindCancel(nb::module_& m);
void BindRecognizer(nb::module_& m);
void BindFeatures(nb::module_& m);
void BindFrameStore(nb::module_& m);
void BindModel(nb::module_& m);
void BindAligner(nb::module_& m);
void BindCorpora(nb::module_& m);
void BindG2p(nb::module_& m);
void BindTraining(nb::module_& m);
void BindImprovement(nb::module_& m);
void BindLog(nb::module_& m);

}  // namespace antiphon::python
