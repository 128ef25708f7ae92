// What `antiphon decode --tune` would have recognised with the weights that it chose: its text was made before.
//
// Errors: InputError naming the file, for a folder without lattices or words that the graph does not have.
#pragma once

#include <filesystem>

#include "score/transcript.h"

namespace antiphon::pipeline {

/// Whether weights were chosen on the set that is recognised in `folder`.
bool ChoseWeights(const std::filesystem::path& folder);

/// Best paths of the folder's lattices.gz by its weights.toml, in the words of `graph` (a folder with words.txt), for
/// each utterance of its text.
score::Transcripts TunedHypotheses(const std::filesystem::path& folder, const std::filesystem::path& graph);

}  // namespace antiphon::pipeline
