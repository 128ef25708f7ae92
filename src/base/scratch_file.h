// A temporary file without a name: it goes with the last who has it open, however that ends.
//
//   const FileDescriptor file = NewScratchFile();
//   ReadFile(PathOf(file));
//
// Threads: safe together. Errors: IoError.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"

namespace antiphon {

/// For reading and writing, in the folder for temporary files; programs started later do not see it.
FileDescriptor NewScratchFile();

/// A path at which this process, and no other, can open it again while it is open.
std::filesystem::path PathOf(const FileDescriptor& file);

}  // namespace antiphon
