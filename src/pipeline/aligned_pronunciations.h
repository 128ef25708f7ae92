// How the words of an alignment were said: from its phones.ctm and words.ctm to entries of the lexicon and pauses.
//
// Threads: pure function. Errors: InputError "file:line: …" for a word or pronunciation that the lexicon lacks (it was
// aligned with another one), phones outside words that are no pause, and lines that are no CTM.
#pragma once

#include <filesystem>
#include <vector>

#include "hmm/graph/pronunciation_model.h"
#include "hmm/lexicon.h"

namespace antiphon::pipeline {

/// Of the folder that antiphon align left; utterances without words, or with
/// speech that is not in their text, are left out. `lexicon` is the one that they were
/// aligned with; its phones may or may not tell positions in words apart.
std::vector<hmm::SpokenWords> ReadAlignedPronunciations(const std::filesystem::path& folder,
                                                        const hmm::Lexicon& lexicon);

constexpr char kEntriesFile[] = "lexiconp_silprob.txt";
constexpr char kPausesFile[] = "silprob.txt";

/// Writes both files, and lexiconp.txt, which has the pronunciations' probabilities alone.
void WritePronunciations(const hmm::PronunciationModel& model, const hmm::Lexicon& lexicon,
                         const std::filesystem::path& folder);
/// Reads the first two; tells the log of entries that they lack.
hmm::PronunciationModel ReadPronunciations(const std::filesystem::path& folder, const hmm::Lexicon& lexicon);

}  // namespace antiphon::pipeline
