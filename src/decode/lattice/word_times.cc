#include "decode/lattice/word_times.h"

#include <algorithm>

#include "base/check.h"

namespace antiphon::decode {
namespace {

// A phone ends behind the transition-id that leaves it and the self-loops of that state.
std::vector<TimedPhone> SplitPhones(const hmm::HmmModel& model, const std::vector<int32_t>& alignment, bool* complete) {
  const auto& transitions = model.transitions();
  std::vector<TimedPhone> phones;
  bool leaving = true;
  for (size_t t = 0; t < alignment.size(); ++t) {
    const int32_t id = alignment[t];
    // What follows a cut may begin with a rest of the phone before it.
    if (phones.empty() && transitions.IsSelfLoop(id)) continue;
    if (leaving && !transitions.IsSelfLoop(id)) {
      phones.push_back({transitions.Phone(id), static_cast<int>(t), 0, -1});
      leaving = false;
    }
    ++phones.back().num_frames;
    if (transitions.IsFinal(id)) leaving = true;
  }
  *complete = leaving;
  return phones;
}

// Words against phones from left to right. Behind each word few places are reached, nearly always one and those behind
// its pauses: they alone are kept, each with where it was first reached from, so that long utterances cost no more than
// their length.
class Matcher {
 public:
  Matcher(const hmm::Lexicon& lexicon, const std::vector<int32_t>& words, const std::vector<TimedPhone>& phones,
          bool complete)
      : lexicon_(lexicon), words_(words), phones_(phones), complete_(complete), behind_(words.size() + 1) {}

  /// word_begin[w], word_end[w]: phones of word w. False if there is no way.
  bool Run(std::vector<std::pair<size_t, size_t>>* spans) {
    Reach(0, 0, kStart);
    for (size_t w = 0; w < behind_.size(); ++w) {
      // A pause adds a place behind the one that is looked at.
      for (size_t i = 0; i < behind_[w].size(); ++i) Advance(w, behind_[w][i].phone);
    }
    // An unfinished path may end in phones whose word it has not said yet.
    if (behind_.back().empty() || (complete_ && behind_.back().back().phone != phones_.size())) return false;
    spans->assign(words_.size(), {});
    for (size_t w = words_.size(), p = behind_.back().back().phone; w > 0 || p > 0;) {
      const int32_t from = PlaceAt(w, p)->from;
      if (from == kPause) {
        --p;
        continue;
      }
      --w;
      (*spans)[w] = {static_cast<size_t>(from), p};
      p = static_cast<size_t>(from);
    }
    return true;
  }

 private:
  static constexpr int32_t kPause = -2, kStart = -3;

  struct Place {
    size_t phone;  // before which it lies
    int32_t from;  // the place of the word's first phone; or kPause, kStart
  };
  using Places = std::vector<Place>;  // in the order of phones

  Places::iterator PlaceAt(size_t w, size_t p) {
    return std::lower_bound(behind_[w].begin(), behind_[w].end(), p,
                            [](const Place& place, size_t phone) { return place.phone < phone; });
  }

  void Reach(size_t w, size_t p, int32_t from) {
    const auto at = PlaceAt(w, p);
    if (at == behind_[w].end() || at->phone != p) behind_[w].insert(at, {p, from});
  }

  void Advance(size_t w, size_t p) {
    if (p < phones_.size() && phones_[p].phone == lexicon_.optional_silence()) Reach(w, p + 1, kPause);
    if (w == words_.size()) return;
    if (words_[w] == lexicon_.unknown_word()) {
      // Where graphs spell unknown words, any phones up to a pause; where it ends is for the next word to say.
      for (size_t end = p; end < phones_.size() && !lexicon_.phones().IsSilence(phones_[end].phone); ++end) {
        Reach(w + 1, end + 1, static_cast<int32_t>(p));
      }
    }
    for (const hmm::Pronunciation& pronunciation : lexicon_.PronunciationsOf(words_[w])) {
      size_t length = 0;
      while (length < pronunciation.phones.size() && p + length < phones_.size() &&
             pronunciation.phones[length] == phones_[p + length].phone) {
        ++length;
      }
      const bool whole = length == pronunciation.phones.size();
      // Only the last phones of an unfinished path may be part of a word.
      if (!whole && (complete_ || p + length != phones_.size())) continue;
      Reach(w + 1, p + length, static_cast<int32_t>(p));
    }
  }

  const hmm::Lexicon& lexicon_;
  const std::vector<int32_t>& words_;
  const std::vector<TimedPhone>& phones_;
  bool complete_;
  std::vector<Places> behind_;  // of each number of words
};

}  // namespace

PathTimes FindTimes(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const LatticePath& path) {
  PathTimes times;
  bool complete = true;
  times.phones = SplitPhones(model, path.alignment, &complete);
  std::vector<std::pair<size_t, size_t>> spans;
  const auto match = [&](bool strict) { return Matcher(lexicon, path.words, times.phones, strict).Run(&spans); };
  if (!(complete && match(true))) CHECK(match(false)) << "the phones of a path do not say its words";
  for (size_t w = 0; w < spans.size(); ++w) {
    const auto [begin, end] = spans[w];
    TimedWord& word = times.words.emplace_back();
    word.word = path.words[w];
    word.begin_frame =
        begin < times.phones.size() ? times.phones[begin].begin_frame : static_cast<int>(path.alignment.size());
    for (size_t p = begin; p < end; ++p) {
      times.phones[p].word_index = static_cast<int32_t>(w);
      word.num_frames += times.phones[p].num_frames;
    }
  }
  return times;
}

}  // namespace antiphon::decode
