// Whether the real numbers of a safetensors file are finite: a file that says otherwise was written by something that
// had gone wrong, and what it holds would spoil every result without a word.
//
// Cost: the data are read once. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "math/safetensors.h"

namespace antiphon {

/// "tensor 'x' [3, 4] holds a value that is not finite at 7" for the first one that does; "" if none does, or only the
/// tensor `but_for`, where infinity means something.
std::string WhatIsNotFinite(const SafetensorsReader& reader, std::string_view but_for = {});

/// InputError that says so.
void RequireFinite(const SafetensorsReader& reader, std::string_view but_for = {});

}  // namespace antiphon
