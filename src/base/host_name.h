// What this machine calls itself, for messages and for telling machines apart. Threads: pure function. Errors: none; a
// machine that has no name, or one of 256 bytes and more, has an empty one.
#pragma once

#include <string>

namespace antiphon {

std::string HostName();

}  // namespace antiphon
