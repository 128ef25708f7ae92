// How many files, sockets and pipes this process may have open at a time (RLIMIT_NOFILE).
//
// A program that keeps many needs more than the usual soft limit of 1024: each cached shard of training data takes one,
// and so does each connection of a server. Threads: as those of getrlimit and setrlimit.
#pragma once

#include <cstdint>

namespace antiphon {

/// Raises the soft limit to the hard one, but not beyond 2^20, for a program to call when it starts. Programs that it
/// starts inherit it.
void RaiseOpenFileLimit();

/// The soft limit.
int64_t OpenFileLimit();

}  // namespace antiphon
