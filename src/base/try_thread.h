// Threads where the system may give no more: limits of processes (ulimit -u, a container's pids.max) or of memory.
//
// Threads: as std::thread. Errors: none; that there are fewer threads than asked for is logged once per process.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace antiphon {

/// Adds a thread that runs `body`; false if the system gives none. Whoever destroys `threads` has joined them.
bool TryThread(std::vector<std::thread>& threads, std::function<void()> body);

/// Up to `count` threads for work that any number of them does. Who asks the caller to stop (base/cancel.h) asks them.
std::vector<std::thread> TryThreads(size_t count, const std::function<void()>& work);

}  // namespace antiphon
