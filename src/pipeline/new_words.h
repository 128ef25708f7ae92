// Words that a lexicon lacks, with pronunciations by a grapheme-to-phoneme model.
//
// Threads: words in parallel; the result does not depend on how many. Errors: InputError naming the model's file and a
// phone that the lexicon does not have. A word with letters that the model does not know is no error: it stays without.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "g2p/model.h"
#include "hmm/lexicon.h"

namespace antiphon::pipeline {

struct NewWords {
  std::vector<std::string> words;    // that got a pronunciation, sorted
  std::vector<std::string> refused;  // the others: why not, a sentence each
  std::string lines;                 // of a lexicon; with probabilities, of which the best has 1, if that one has them
};

/// `words`: any, also repeated or in the lexicon.
NewWords PronounceNewWords(const hmm::Lexicon& lexicon, std::span<const std::string> words, const g2p::Model& model,
                           const g2p::PronounceOptions& options, int num_threads);

/// The lexicon, and behind its words the new ones: ids of the lexicon's words stay. `source` names the model in errors.
hmm::Lexicon WithNewWords(const hmm::Lexicon& lexicon, const NewWords& added, const std::string& source);

/// What antiphon g2p train wrote, or the one that a bundle has inside; InputError if that has none.
g2p::Model OpenG2p(const std::string& place);

/// InputError unless the lexicon has all phones of the model.
void RequirePhones(const g2p::Model& model, const hmm::Lexicon& lexicon, const std::string& source);

}  // namespace antiphon::pipeline
