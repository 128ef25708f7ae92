// The version, as semver.org has it: programs that were built for a version work with later ones of the same first
// number (while that is 0: of the same second number).
//
// Ownership: texts live as long as the program. Threads: pure functions. Errors: none.
#pragma once

#include "antiphon/export.h"

namespace antiphon {

struct Version {
  int major_number = 0;
  int minor_number = 0;
  int patch_number = 0;

  bool operator==(const Version&) const = default;
};

/// Of these headers.
inline constexpr Version kHeaderVersion{0, 1, 0};

/// Of the library that is linked or loaded.
ANTIPHON_API Version LibraryVersion();
/// "0.1.0".
ANTIPHON_API const char* LibraryVersionText();

}  // namespace antiphon
