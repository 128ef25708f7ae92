// L: the lexicon as a transducer from phones to words, with a pause that may stand at either end and between words.
//
// Costs are −log: of the pronunciation, of the pause (silence_probability) or of its absence. Disambiguation phones #k
// (labels Lexicon::DisambiguationPhone) follow pronunciations that equal or begin another one, and the pause, so that
// L∘G can be determinised; #0 : Lexicon::backoff_word() loops where words begin, for a grammar with back-off arcs.
//
// With a pronunciation model, words begin in one of two states, after a pause and after none, and a word's costs depend
// on which; pauses depend on the word before. Sources: Mohri, Pereira, Riley, Speech recognition with weighted
// finite-state transducers, 2008; Chen et al., Pronunciation and silence probability modeling for ASR, Interspeech
// 2015.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <vector>

#include "hmm/graph/pronunciation_model.h"
#include "hmm/lexicon.h"

namespace antiphon::hmm {

/// Overwrites `fst`; arcs sorted by output label. Returns the labels of the disambiguation phones in use, ascending (#0
/// first); none without `disambiguate`. `pronunciations`: of this lexicon, in place of its pronunciations' costs and
/// its silence_probability; null: none.
std::vector<int32_t> BuildLexiconFst(const Lexicon& lexicon, bool disambiguate, fst::StdVectorFst* fst,
                                     const PronunciationModel* pronunciations = nullptr);

/// What a label of the lexicon below stands for.
struct PronunciationLabel {
  int32_t word = 0;
  float cost = 0.0F;  // of the pronunciation, and of beginning where it begins
};

/// The same with disambiguation phones, of which pronunciation was said: overwrites `fst`, whose output labels are
/// indices into `labels` (labels[0]: none) and, where words begin, labels.size() for a grammar to back off. What
/// pronunciations cost is not in `fst` but in `labels`. If pronunciations begin with the pause's phone, one more
/// disambiguation phone stands before a pause: its cost is its own from its first frame on. With a pronunciation model,
/// words that begin after a pause have labels of their own, one more disambiguation phone stands before every pause,
/// and another where there is none.
std::vector<int32_t> BuildPronunciationFst(const Lexicon& lexicon, const PronunciationModel* pronunciations,
                                           fst::StdVectorFst* fst, std::vector<PronunciationLabel>* labels);

/// For each of lexicon.entries(): k of its disambiguation phone, 0 for none; k from 1.
std::vector<int> AssignDisambiguation(const Lexicon& lexicon);

}  // namespace antiphon::hmm
