// One value of a Kaldi table in its byte form, without key: reading, skipping, appending.
//
// T as in data/archive.h. Errors: InputError with file and byte; sizes are compared with what the file can still hold
// before memory is taken. Source: Kaldi's matrix/kaldi-matrix.cc, matrix/kaldi-vector.cc, util/kaldi-holder-inl.h.
#pragma once

#include <string>

#include "data/archive.h"
#include "data/byte_source.h"

namespace antiphon::data {

/// Binary if "\0B" comes next, text otherwise.
template <class T>
T ReadValue(ByteSource& in);

/// Passes over a value, looking at headers only where it is binary.
template <class T>
void SkipValue(ByteSource& in);

template <class T>
void AppendValue(const T& value, bool text, MatrixCoding coding, std::string& out);

/// InputError naming row and column of the first value that is not finite.
template <class T>
void RequireFinite(const T& value);

}  // namespace antiphon::data
