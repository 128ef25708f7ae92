#include "hmm/graph/lexicon_fst.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using Arc = fst::StdArc;

}  // namespace

std::vector<int> AssignDisambiguation(const Lexicon& lexicon) {
  std::map<std::vector<int32_t>, int> uses;
  std::set<std::vector<int32_t>> prefixes;
  for (const Pronunciation& entry : lexicon.entries()) {
    ++uses[entry.phones];
    for (size_t n = 1; n < entry.phones.size(); ++n)
      prefixes.emplace(entry.phones.begin(), entry.phones.begin() + static_cast<std::ptrdiff_t>(n));
  }
  std::map<std::vector<int32_t>, int> last;
  std::vector<int> symbols;
  for (const Pronunciation& entry : lexicon.entries()) {
    const bool needed = uses[entry.phones] > 1 || prefixes.contains(entry.phones);
    symbols.push_back(needed ? ++last[entry.phones] : 0);
  }
  return symbols;
}

std::vector<int32_t> BuildLexiconFst(const Lexicon& lexicon, bool disambiguate, fst::StdVectorFst* out) {
  fst::StdVectorFst& l = *out;
  l.DeleteStates();
  const auto start = l.AddState();
  const auto loop = l.AddState();     // words begin here
  const auto silence = l.AddState();  // a pause begins here
  l.SetStart(start);
  l.SetFinal(loop, Arc::Weight::One());
  const double p = lexicon.options().silence_probability;
  const auto no_pause = static_cast<float>(-std::log(1 - p));
  const auto pause = static_cast<float>(-std::log(p));
  l.AddArc(start, Arc(0, 0, no_pause, loop));
  l.AddArc(start, Arc(0, 0, pause, silence));

  const std::vector<int> symbols = AssignDisambiguation(lexicon);
  const int silence_symbol = symbols.empty() ? 1 : *std::max_element(symbols.begin(), symbols.end()) + 1;
  if (disambiguate) {
    const auto after = l.AddState();
    l.AddArc(silence, Arc(lexicon.optional_silence(), 0, 0, after));
    l.AddArc(after, Arc(lexicon.DisambiguationPhone(silence_symbol), 0, 0, loop));
    l.AddArc(loop, Arc(lexicon.DisambiguationPhone(0), lexicon.backoff_word(), 0, loop));
  } else {
    l.AddArc(silence, Arc(lexicon.optional_silence(), 0, 0, loop));
  }
  for (size_t e = 0; e < symbols.size(); ++e) {
    const Pronunciation& entry = lexicon.entries()[e];
    std::vector<int32_t> labels = entry.phones;
    if (disambiguate && symbols[e] > 0) labels.push_back(lexicon.DisambiguationPhone(symbols[e]));
    auto from = loop;
    for (size_t i = 0; i + 1 < labels.size(); ++i) {
      const auto to = l.AddState();
      l.AddArc(from, Arc(labels[i], i == 0 ? entry.word : 0, i == 0 ? entry.cost : 0.0F, to));
      from = to;
    }
    const int32_t word = labels.size() == 1 ? entry.word : 0;
    const float cost = labels.size() == 1 ? entry.cost : 0;
    l.AddArc(from, Arc(labels.back(), word, cost + no_pause, loop));
    l.AddArc(from, Arc(labels.back(), word, cost + pause, silence));
  }
  fst::ArcSort(&l, fst::OLabelCompare<Arc>());
  std::vector<int32_t> used;
  if (disambiguate) {
    for (int k = 0; k <= silence_symbol; ++k) used.push_back(lexicon.DisambiguationPhone(k));
  }
  return used;
}

}  // namespace antiphon::hmm
