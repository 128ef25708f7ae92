// Manifests of lhotse: recordings and supervisions, an object per line.
//
// Read by the format "lhotse". Threads: pure functions. Errors: IoError, InputError naming audio that cannot be read.
// Source: lhotse, "Representing a corpus".
#pragma once

#include <filesystem>

#include "data/data_dir.h"

namespace antiphon::data {

/// Writes recordings.jsonl and supervisions.jsonl, whose paths are absolute, into `folder`. Every recording's header
/// is read; recordings that are commands are refused.
void WriteLhotse(const DataDir& dir, const std::filesystem::path& folder);

}  // namespace antiphon::data
