#include "antiphon/version.h"

namespace antiphon {

// CMake says it once more, for the program and the packages.
static_assert(kHeaderVersion == Version{ANTIPHON_PROJECT_VERSION_MAJOR, ANTIPHON_PROJECT_VERSION_MINOR,
                                        ANTIPHON_PROJECT_VERSION_PATCH},
              "include/antiphon/version.h and project(VERSION …) of CMakeLists.txt differ");

Version LibraryVersion() { return kHeaderVersion; }

const char* LibraryVersionText() { return ANTIPHON_PROJECT_VERSION; }

}  // namespace antiphon
