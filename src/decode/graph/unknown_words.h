// Words that the lexicon lacks, spelled phone by phone: <UNK> is said as any sequence of phones that looks like a word.
//
// Without them a word that the lexicon lacks is heard as two or three others. In the grammar <UNK> stands where the
// language model has forgotten all before; its phones are an n-gram model (hmm/graph/phone_ngrams.h) of the lexicon's
// pronunciations, each of which counts once. In L its pronunciation is one symbol, #unk, so that determinisation sees
// no more than another phone; then each arc with it is replaced by the n-grams, between two #unk, which keep them apart
// from words with the same phones.
//
// Units: costs in nats. Threads: pure functions.
// Errors: InputError for a lexicon without such a word, or with several phones for it; for a grammar that has no place
// where any word may stand.
// Source: Bazzi, Glass, Modeling out-of-vocabulary words for robust speech recognition, ICSLP 2000.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <span>

#include "hmm/lexicon.h"

namespace antiphon::decode {

/// Lets `grammar` say <UNK> with this probability where it has backed off to the end, unless it says it there already.
void AddUnknownWord(const hmm::Lexicon& lexicon, double probability, fst::StdVectorFst* grammar);

/// In L, the arcs on which a pronunciation of <UNK> begins read `symbol` instead of its phone; `labels` are what they
/// write.
void MarkUnknownWord(const hmm::Lexicon& lexicon, std::span<const int32_t> labels, int32_t symbol,
                     fst::StdVectorFst* lexicon_fst);

/// In det(L) or det(L ∘ G): every arc that reads `symbol` becomes the lexicon's phone n-grams between two `symbol`.
void SpellUnknownWord(const hmm::Lexicon& lexicon, int32_t symbol, fst::StdVectorFst* fst);

}  // namespace antiphon::decode
