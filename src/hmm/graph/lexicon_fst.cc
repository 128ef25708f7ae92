#include "hmm/graph/lexicon_fst.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using Arc = fst::StdArc;

float Cost(double probability) { return static_cast<float>(-std::log(probability)); }

// The labels of a pronunciation, and what its ends cost.
struct Said {
  std::vector<int32_t> labels;
  int32_t word = 0;
  float after_none = 0, after_pause = 0;  // to begin where no pause, where a pause was
  float no_pause = 0, pause = 0;          // to go on without one, with one
};

// Words begin in `none` or in `paused`, whichever the word before, or the beginning, led to.
class PausedLexicon {
 public:
  PausedLexicon(const Lexicon& lexicon, const PronunciationModel& model, fst::StdVectorFst* out) : l_(*out) {
    const auto start = l_.AddState();
    none_ = l_.AddState();
    paused_ = l_.AddState();
    pause_ = l_.AddState();
    l_.SetStart(start);
    l_.SetFinal(none_, Cost(model.end_factor_after_none));
    l_.SetFinal(paused_, Cost(model.end_factor_after_pause));
    l_.AddArc(start, Arc(0, 0, Cost(1 - model.pause_at_start), none_));
    l_.AddArc(start, Arc(0, 0, Cost(model.pause_at_start), pause_));
    silence_ = lexicon.optional_silence();
  }

  void AddPause() { l_.AddArc(pause_, Arc(silence_, 0, 0, paused_)); }

  void AddPause(int32_t symbol, int32_t backoff_symbol, int32_t backoff_word) {
    const auto after = l_.AddState();
    l_.AddArc(pause_, Arc(silence_, 0, 0, after));
    l_.AddArc(after, Arc(symbol, 0, 0, paused_));
    for (const auto state : {none_, paused_}) l_.AddArc(state, Arc(backoff_symbol, backoff_word, 0, state));
  }

  void Add(const Said& said) {
    const auto& labels = said.labels;
    if (labels.size() == 1) {
      for (const auto& [from, cost] : {std::pair(none_, said.after_none), {paused_, said.after_pause}}) {
        AddLast(from, said, said.word, cost);
      }
      return;
    }
    auto at = l_.AddState();
    l_.AddArc(none_, Arc(labels[0], said.word, said.after_none, at));
    l_.AddArc(paused_, Arc(labels[0], said.word, said.after_pause, at));
    for (size_t i = 1; i + 1 < labels.size(); ++i) {
      const auto to = l_.AddState();
      l_.AddArc(at, Arc(labels[i], 0, 0, to));
      at = to;
    }
    AddLast(at, said, 0, 0);
  }

 private:
  void AddLast(int from, const Said& said, int32_t word, float cost) {
    l_.AddArc(from, Arc(said.labels.back(), word, cost + said.no_pause, none_));
    l_.AddArc(from, Arc(said.labels.back(), word, cost + said.pause, pause_));
  }

  fst::StdVectorFst& l_;
  int none_, paused_, pause_;
  int32_t silence_;
};

std::vector<int32_t> BuildPausedLexiconFst(const Lexicon& lexicon, const PronunciationModel& model, bool disambiguate,
                                           fst::StdVectorFst* out) {
  CHECK_EQ(model.entries.size(), lexicon.entries().size());
  out->DeleteStates();
  PausedLexicon paused(lexicon, model, out);
  const std::vector<int> symbols = AssignDisambiguation(lexicon);
  const int silence_symbol = symbols.empty() ? 1 : *std::max_element(symbols.begin(), symbols.end()) + 1;
  if (disambiguate) {
    paused.AddPause(lexicon.DisambiguationPhone(silence_symbol), lexicon.DisambiguationPhone(0),
                    lexicon.backoff_word());
  } else {
    paused.AddPause();
  }
  for (size_t e = 0; e < symbols.size(); ++e) {
    const PronunciationModel::Entry& entry = model.entries[e];
    Said said{lexicon.entries()[e].phones,
              lexicon.entries()[e].word,
              Cost(entry.probability) + Cost(entry.factor_after_none),
              Cost(entry.probability) + Cost(entry.factor_after_pause),
              Cost(1 - entry.pause_after),
              Cost(entry.pause_after)};
    if (disambiguate && symbols[e] > 0) said.labels.push_back(lexicon.DisambiguationPhone(symbols[e]));
    paused.Add(said);
  }
  fst::ArcSort(out, fst::OLabelCompare<Arc>());
  std::vector<int32_t> used;
  for (int k = 0; disambiguate && k <= silence_symbol; ++k) used.push_back(lexicon.DisambiguationPhone(k));
  return used;
}

// What the output labels are: words, or entries from 1.
enum class Written { kWords, kEntries };

bool AnyBeginsAsAPause(const Lexicon& lexicon) {
  return std::ranges::any_of(lexicon.entries(), [&](const Pronunciation& entry) {
    return entry.phones.front() == lexicon.optional_silence();
  });
}

// A pause from `from` to `to`, told apart from words by disambiguation phones from #k on: one behind it and, with
// `marked`, one before it. Returns the k of the last one.
int AddMarkedPause(const Lexicon& lexicon, int from, int to, int k, bool marked, fst::StdVectorFst& l) {
  const auto after = l.AddState();
  l.AddArc(after, Arc(lexicon.DisambiguationPhone(k), 0, 0, to));
  if (marked) {
    const auto before = l.AddState();
    l.AddArc(from, Arc(lexicon.DisambiguationPhone(++k), 0, 0, before));
    from = before;
  }
  l.AddArc(from, Arc(lexicon.optional_silence(), 0, 0, after));
  return k;
}

// Determinisation adds up what begins alike. With words, `<SIL> SIL` and a pause share a path until they differ; that
// path costs what both are worth together, as the language model, which is composed first, weighs the word. Entries
// have no such weight yet: the path would cost as if every entry that begins as a pause does were certain to be said,
// and a pause would be cheap until it ends. A symbol before the pause keeps it apart from them.
std::vector<int32_t> BuildPlainLexiconFst(const Lexicon& lexicon, bool disambiguate, Written written,
                                          fst::StdVectorFst* out) {
  const bool words = written == Written::kWords;
  const int32_t backoff_label = words ? lexicon.backoff_word() : static_cast<int32_t>(lexicon.entries().size()) + 1;
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
  int last_symbol = symbols.empty() ? 1 : *std::max_element(symbols.begin(), symbols.end()) + 1;
  if (disambiguate) {
    last_symbol = AddMarkedPause(lexicon, silence, loop, last_symbol, !words && AnyBeginsAsAPause(lexicon), l);
    l.AddArc(loop, Arc(lexicon.DisambiguationPhone(0), backoff_label, 0, loop));
  } else {
    l.AddArc(silence, Arc(lexicon.optional_silence(), 0, 0, loop));
  }
  for (size_t e = 0; e < symbols.size(); ++e) {
    const Pronunciation& entry = lexicon.entries()[e];
    const int32_t label = words ? entry.word : static_cast<int32_t>(e) + 1;
    const float entry_cost = words ? entry.cost : 0.0F;
    std::vector<int32_t> labels = entry.phones;
    if (disambiguate && symbols[e] > 0) labels.push_back(lexicon.DisambiguationPhone(symbols[e]));
    auto from = loop;
    for (size_t i = 0; i + 1 < labels.size(); ++i) {
      const auto to = l.AddState();
      l.AddArc(from, Arc(labels[i], i == 0 ? label : 0, i == 0 ? entry_cost : 0.0F, to));
      from = to;
    }
    const int32_t last_label = labels.size() == 1 ? label : 0;
    const float cost = labels.size() == 1 ? entry_cost : 0;
    l.AddArc(from, Arc(labels.back(), last_label, cost + no_pause, loop));
    l.AddArc(from, Arc(labels.back(), last_label, cost + pause, silence));
  }
  fst::ArcSort(&l, fst::OLabelCompare<Arc>());
  std::vector<int32_t> used;
  if (disambiguate) {
    for (int k = 0; k <= last_symbol; ++k) used.push_back(lexicon.DisambiguationPhone(k));
  }
  return used;
}

// As PausedLexicon, with a pronunciation's own label for each state in which it begins, and an end of its own, from
// where it is decided by a disambiguation phone whether a pause follows: ends differ in what the two cost.
class LabelledLexicon {
 public:
  LabelledLexicon(const Lexicon& lexicon, const PronunciationModel& model, int32_t first_symbol, int32_t backoff_label,
                  fst::StdVectorFst* out)
      : l_(*out), pause_symbol_(first_symbol + 1), no_pause_symbol_(first_symbol + 2) {
    const auto start = l_.AddState();
    none_ = l_.AddState();
    paused_ = l_.AddState();
    pause_ = l_.AddState();
    const auto after = l_.AddState();
    l_.SetStart(start);
    l_.SetFinal(none_, Cost(model.end_factor_after_none));
    l_.SetFinal(paused_, Cost(model.end_factor_after_pause));
    AddEnd(start, Cost(1 - model.pause_at_start), Cost(model.pause_at_start));
    l_.AddArc(pause_, Arc(lexicon.optional_silence(), 0, 0, after));
    l_.AddArc(after, Arc(first_symbol, 0, 0, paused_));
    for (const auto state : {none_, paused_}) {
      l_.AddArc(state, Arc(lexicon.DisambiguationPhone(0), backoff_label, 0, state));
    }
  }

  void Add(const std::vector<int32_t>& phones, int32_t after_none, int32_t after_pause, float no_pause, float pause) {
    auto at = l_.AddState();
    l_.AddArc(none_, Arc(phones[0], after_none, 0, at));
    l_.AddArc(paused_, Arc(phones[0], after_pause, 0, at));
    for (size_t i = 1; i < phones.size(); ++i) {
      const auto to = l_.AddState();
      l_.AddArc(at, Arc(phones[i], 0, 0, to));
      at = to;
    }
    AddEnd(at, no_pause, pause);
  }

 private:
  void AddEnd(int from, float no_pause, float pause) {
    l_.AddArc(from, Arc(no_pause_symbol_, 0, no_pause, none_));
    l_.AddArc(from, Arc(pause_symbol_, 0, pause, pause_));
  }

  fst::StdVectorFst& l_;
  int none_, paused_, pause_;
  int32_t pause_symbol_, no_pause_symbol_;
};

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

std::vector<int32_t> BuildLexiconFst(const Lexicon& lexicon, bool disambiguate, fst::StdVectorFst* out,
                                     const PronunciationModel* pronunciations) {
  if (pronunciations != nullptr) return BuildPausedLexiconFst(lexicon, *pronunciations, disambiguate, out);
  return BuildPlainLexiconFst(lexicon, disambiguate, Written::kWords, out);
}

std::vector<int32_t> BuildPronunciationFst(const Lexicon& lexicon, const PronunciationModel* pronunciations,
                                           fst::StdVectorFst* out, std::vector<PronunciationLabel>* labels) {
  labels->assign(1, {});
  if (pronunciations == nullptr) {
    for (const Pronunciation& entry : lexicon.entries()) labels->push_back({entry.word, entry.cost});
    return BuildPlainLexiconFst(lexicon, true, Written::kEntries, out);
  }
  const PronunciationModel& model = *pronunciations;
  CHECK_EQ(model.entries.size(), lexicon.entries().size());
  const std::vector<int> symbols = AssignDisambiguation(lexicon);
  const auto count = static_cast<int32_t>(symbols.size());
  const int last = symbols.empty() ? 0 : *std::max_element(symbols.begin(), symbols.end());
  out->DeleteStates();
  LabelledLexicon labelled(lexicon, model, lexicon.DisambiguationPhone(last + 1), 2 * count + 1, out);
  labels->resize(2 * symbols.size() + 1);
  for (size_t e = 0; e < symbols.size(); ++e) {
    const PronunciationModel::Entry& entry = model.entries[e];
    const int32_t word = lexicon.entries()[e].word;
    std::vector<int32_t> phones = lexicon.entries()[e].phones;
    if (symbols[e] > 0) phones.push_back(lexicon.DisambiguationPhone(symbols[e]));
    (*labels)[e + 1] = {word, Cost(entry.probability) + Cost(entry.factor_after_none)};
    (*labels)[e + 1 + symbols.size()] = {word, Cost(entry.probability) + Cost(entry.factor_after_pause)};
    const auto label = static_cast<int32_t>(e) + 1;
    labelled.Add(phones, label, label + count, Cost(1 - entry.pause_after), Cost(entry.pause_after));
  }
  fst::ArcSort(out, fst::OLabelCompare<Arc>());
  std::vector<int32_t> used;
  for (int k = 0; k <= last + 3; ++k) used.push_back(lexicon.DisambiguationPhone(k));
  return used;
}

}  // namespace antiphon::hmm
