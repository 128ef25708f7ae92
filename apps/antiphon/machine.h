// What this machine and this build can do: CPU, kernels in use, libraries, memory, disk, MPI and CUDA.
//
// Threads: plain functions. Errors: those of the file system for a folder that is not there.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace antiphon::app {

/// Name and value; the disk is that of `folder`.
std::vector<std::pair<std::string, std::string>> ExamineMachine(const std::string& folder);
/// What makes this machine slower or smaller than need be.
std::vector<std::string> MachineWarnings(const std::string& folder);
/// Both as lines of text.
std::vector<std::string> MachineText(const std::string& folder);

}  // namespace antiphon::app
