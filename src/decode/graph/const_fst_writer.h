// Writes a transducer as OpenFst's "const" file with memory alignment, which ParseConstFst takes apart.
//
// Threads: pure function. Errors: IoError as AtomicFile.
#pragma once

#include <fst/fst-decl.h>

#include "base/file.h"

namespace antiphon::decode {

/// Into the file's stream; Commit is left to the caller.
void WriteConstFst(const fst::StdVectorFst& graph, AtomicFile& file);

}  // namespace antiphon::decode
