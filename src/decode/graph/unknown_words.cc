#include "decode/graph/unknown_words.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "hmm/graph/openfst.h"
#include "hmm/graph/phone_ngrams.h"

namespace antiphon::decode {
namespace {

using Arc = fst::StdArc;
using Fst = fst::StdVectorFst;

float CostOf(double probability) { return static_cast<float>(-std::log(probability)); }

// The state behind the back-off arc of `state`; none: −1.
int BackedOff(const Fst& grammar, int state, int32_t backoff_word) {
  for (fst::ArcIterator<Fst> it(grammar, state); !it.Done(); it.Next()) {
    if (it.Value().ilabel == backoff_word) return it.Value().nextstate;
  }
  return -1;
}

hmm::PhoneNgrams WordPhones(const hmm::Lexicon& lexicon) {
  std::vector<std::vector<int32_t>> words;
  for (const hmm::Pronunciation& entry : lexicon.entries()) {
    const auto is_silence = [&](int32_t phone) { return lexicon.phones().IsSilence(phone); };
    if (std::none_of(entry.phones.begin(), entry.phones.end(), is_silence)) words.push_back(entry.phones);
  }
  return hmm::EstimatePhoneNgrams(words, {});
}

// Adds the n-grams; returns their first state.
int AddPhones(const hmm::PhoneNgrams& ngrams, int32_t symbol, int behind, Fst* fst) {
  const int first = fst->NumStates();
  fst->AddStates(ngrams.states.size());
  for (size_t s = 0; s < ngrams.states.size(); ++s) {
    const int from = first + static_cast<int>(s);
    for (const hmm::PhoneNgrams::Arc& arc : ngrams.states[s].arcs) {
      fst->AddArc(from, Arc(arc.phone, 0, CostOf(arc.probability), first + arc.to));
    }
    const double end = ngrams.states[s].end_probability;
    if (end > 0) fst->AddArc(from, Arc(symbol, 0, CostOf(end), behind));
  }
  return first;
}

}  // namespace

void AddUnknownWord(const hmm::Lexicon& lexicon, double probability, Fst* grammar) {
  const int32_t unknown = lexicon.unknown_word();
  if (unknown == 0) {
    Throw<InputError>("the lexicon has no word '{0}' that unknown words could be written as; add the line '{0} SPN'",
                      lexicon.options().unknown_word);
  }
  const int32_t backoff_word = lexicon.backoff_word();
  int base = grammar->Start();
  for (int next = base; next >= 0; next = BackedOff(*grammar, base, backoff_word)) base = next;
  bool is_backed_off_to = grammar->NumStates() == 1;
  for (int s = 0; s < grammar->NumStates() && !is_backed_off_to; ++s) {
    is_backed_off_to = BackedOff(*grammar, s, backoff_word) == base;
  }
  if (!is_backed_off_to) {
    throw InputError(
        "this grammar never backs off, so that there is no place where any word may stand: write the unknown word "
        "into it");
  }
  for (fst::ArcIterator<Fst> it(*grammar, base); !it.Done(); it.Next()) {
    if (it.Value().ilabel == unknown) return;
  }
  grammar->AddArc(base, Arc(unknown, unknown, CostOf(probability), base));
}

void MarkUnknownWord(const hmm::Lexicon& lexicon, std::span<const int32_t> labels, int32_t symbol, Fst* lexicon_fst) {
  for (const hmm::Pronunciation& entry : lexicon.PronunciationsOf(lexicon.unknown_word())) {
    if (entry.phones.size() == 1) continue;
    Throw<InputError>("the lexicon says '{}' with {} phones; unknown words can be spelled where it has one alone",
                      lexicon.options().unknown_word, entry.phones.size());
  }
  for (int s = 0; s < lexicon_fst->NumStates(); ++s) {
    for (fst::MutableArcIterator<Fst> it(lexicon_fst, s); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      if (std::find(labels.begin(), labels.end(), arc.olabel) == labels.end()) continue;
      arc.ilabel = symbol;
      it.SetValue(arc);
    }
  }
}

void SpellUnknownWord(const hmm::Lexicon& lexicon, int32_t symbol, Fst* fst) {
  const hmm::PhoneNgrams ngrams = WordPhones(lexicon);
  const int count = fst->NumStates();
  std::map<int, int> spelled;  // by the state behind: where its phones begin
  for (int s = 0; s < count; ++s) {
    for (fst::ArcIterator<Fst> it(*fst, s); !it.Done(); it.Next()) {
      if (it.Value().ilabel == symbol) spelled[it.Value().nextstate] = 0;
    }
  }
  for (auto& [behind, first] : spelled) first = AddPhones(ngrams, symbol, behind, fst);
  for (int s = 0; s < count; ++s) {
    for (fst::MutableArcIterator<Fst> it(fst, s); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      if (arc.ilabel != symbol) continue;
      arc.nextstate = spelled.at(arc.nextstate);
      it.SetValue(arc);
    }
  }
}

}  // namespace antiphon::decode
