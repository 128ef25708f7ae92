#include "pipeline/text_anchors.h"

#include <algorithm>
#include <map>

#include "score/edit_alignment.h"

namespace antiphon::pipeline {
namespace {

using Pairs = std::vector<std::pair<int, int>>;
using WordIds = std::span<const int32_t>;

constexpr int64_t kMostCells = 4'000'000;  // of one comparison word by word
constexpr int kLongestSequence = 5;        // that is looked for as unique
constexpr int kAnchorWords = 4;            // that agree on end
constexpr int kFewestFrames = 10;          // of a stretch
constexpr int kMargin = 2;                 // words of an anchor on either side of a cut

// Part of the text and of the found words.
struct PairRange {
  int text_begin, text_end, found_begin, found_end;
  int64_t cells() const { return int64_t{text_end - text_begin} * (found_end - found_begin); }
};

// Where each sequence of `length` words begins that occurs once; −1 for those that occur more often.
std::map<std::vector<int32_t>, int> UniqueSequences(WordIds words, int begin, int end, int length) {
  std::map<std::vector<int32_t>, int> places;
  for (int i = begin; i + length <= end; ++i) {
    const auto from = words.begin() + i;
    const auto [place, is_new] = places.emplace(std::vector<int32_t>(from, from + length), i);
    if (!is_new) place->second = -1;
  }
  return places;
}

// The longest ascending part of `pairs`, which ascend by first.
Pairs LongestAscending(const Pairs& pairs) {
  std::vector<int> ends;  // by length: the pair with the lowest second that ends such a sequence
  std::vector<int> before(pairs.size(), -1);
  for (int i = 0; i < static_cast<int>(pairs.size()); ++i) {
    const auto end = std::lower_bound(ends.begin(), ends.end(), pairs[static_cast<size_t>(i)].second,
                                      [&](int p, int value) { return pairs[static_cast<size_t>(p)].second < value; });
    if (end != ends.begin()) before[static_cast<size_t>(i)] = *(end - 1);
    if (end == ends.end()) {
      ends.push_back(i);
    } else {
      *end = i;
    }
  }
  Pairs longest;
  for (int i = ends.empty() ? -1 : ends.back(); i >= 0; i = before[static_cast<size_t>(i)]) {
    longest.push_back(pairs[static_cast<size_t>(i)]);
  }
  std::reverse(longest.begin(), longest.end());
  return longest;
}

class WordMatcher {
 public:
  WordMatcher(WordIds text, WordIds found) : text_(text), found_(found) {}

  Pairs Run() {
    Match({0, static_cast<int>(text_.size()), 0, static_cast<int>(found_.size())});
    return std::move(pairs_);
  }

 private:
  bool Agree(int t, int f) const { return text_[static_cast<size_t>(t)] == found_[static_cast<size_t>(f)]; }

  void Match(PairRange r) {
    while (r.text_begin < r.text_end && r.found_begin < r.found_end && Agree(r.text_begin, r.found_begin)) {
      pairs_.emplace_back(r.text_begin++, r.found_begin++);
    }
    Pairs end;
    while (r.text_begin < r.text_end && r.found_begin < r.found_end && Agree(r.text_end - 1, r.found_end - 1)) {
      end.emplace_back(--r.text_end, --r.found_end);
    }
    if (r.cells() > 0) MatchMiddle(r);
    pairs_.insert(pairs_.end(), end.rbegin(), end.rend());
  }

  void MatchMiddle(const PairRange& r) {
    if (r.cells() <= kMostCells) return MatchWordByWord(r);
    const Pairs anchors = Anchors(r);
    int text = r.text_begin, found = r.found_begin;
    for (const auto& [t, f] : anchors) {
      if (t < text || f < found) continue;  // within what the one before has grown to
      // The anchor's own words agree, and so begin the match of what follows.
      if (t > text && f > found) MatchBefore({text, t, found, f});
      text = t;
      found = f;
      while (text < r.text_end && found < r.found_end && Agree(text, found)) pairs_.emplace_back(text++, found++);
    }
    if (!anchors.empty()) MatchBefore({text, r.text_end, found, r.found_end});
  }

  void MatchBefore(const PairRange& r) {
    if (r.cells() > 0) Match(r);
  }

  // First words of sequences that both have once, the longest that there are.
  Pairs Anchors(const PairRange& r) const {
    for (int length = kLongestSequence; length > 1; --length) {
      const auto in_text = UniqueSequences(text_, r.text_begin, r.text_end, length);
      const auto in_found = UniqueSequences(found_, r.found_begin, r.found_end, length);
      Pairs both;
      for (const auto& [sequence, t] : in_text) {
        const auto f = in_found.find(sequence);
        if (t >= 0 && f != in_found.end() && f->second >= 0) both.emplace_back(t, f->second);
      }
      std::sort(both.begin(), both.end());
      Pairs ascending = LongestAscending(both);
      if (!ascending.empty()) return ascending;
    }
    return {};
  }

  void MatchWordByWord(const PairRange& r) {
    const auto part = [](WordIds words, int begin, int end) {
      return words.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    };
    const auto alignment =
        score::AlignTokens(part(text_, r.text_begin, r.text_end), part(found_, r.found_begin, r.found_end));
    int t = r.text_begin, f = r.found_begin;
    for (const score::Edit edit : alignment.edits) {
      if (edit == score::Edit::kCorrect) pairs_.emplace_back(t, f);
      if (edit != score::Edit::kInsertion) ++t;
      if (edit != score::Edit::kDeletion) ++f;
    }
  }

  WordIds text_, found_;
  Pairs pairs_;
};

// A place between two words at which text and recording may be cut.
struct Place {
  int word;  // of the text, before which the cut is
  int frame;
  int pause;  // frames
};

// Where words agree on end.
struct Anchor {
  size_t first, last;  // pairs
};

std::vector<Anchor> FindAnchors(const Pairs& pairs, size_t fewest) {
  std::vector<Anchor> anchors;
  for (size_t begin = 0, i = 1; i <= pairs.size(); ++i) {
    const bool goes_on =
        i < pairs.size() && pairs[i].first == pairs[i - 1].first + 1 && pairs[i].second == pairs[i - 1].second + 1;
    if (goes_on) continue;
    if (i - begin >= fewest) anchors.push_back({begin, i - 1});
    begin = i;
  }
  return anchors;
}

std::vector<Place> PlacesIn(const Anchor& anchor, const Pairs& pairs, std::span<const FoundWord> found) {
  std::vector<Place> places;
  for (size_t i = anchor.first + kMargin; i + kMargin <= anchor.last + 1; ++i) {
    const FoundWord& word = found[static_cast<size_t>(pairs[i].second)];
    const int before = found[static_cast<size_t>(pairs[i].second) - 1].end_frame;
    places.push_back({pairs[i].first, (before + word.begin_frame) / 2, word.begin_frame - before});
  }
  return places;
}

class Cutter {
 public:
  explicit Cutter(int usual_frames) : usual_frames_(usual_frames) {}

  // An anchor's first and last place, and those between them that cut it into stretches of the usual length, each in
  // the longest pause that there is.
  void Add(const std::vector<Place>& places) {
    Cut(places.front(), false);
    size_t at = 0;
    while (places.back().frame - frame_ > usual_frames_) {
      size_t best = 0;
      for (size_t i = at + 1; i < places.size() && places[i].frame - frame_ <= usual_frames_; ++i) {
        const bool far_enough = places[i].frame - frame_ >= usual_frames_ / 2;
        if (far_enough && (best == 0 || places[i].pause >= places[best].pause)) best = i;
      }
      if (best == 0) best = std::min(at + 1, places.size() - 1);
      if (best == at) break;
      Cut(places[best], true);
      at = best;
    }
    Cut(places.back(), true);
  }

  void Cut(const Place& place, bool sure) {
    if (place.word == word_ && place.frame == frame_) return;
    doubtful_ = doubtful_ || !sure;
    // Words need frames; the next cut takes them along.
    if (place.frame < frame_ + kFewestFrames || place.word < word_) return;
    stretches_.push_back({word_, place.word - word_, frame_, place.frame, !doubtful_});
    word_ = place.word;
    frame_ = place.frame;
    doubtful_ = false;
  }

  std::vector<TextStretch> Take(int num_words, int num_frames) {
    if (!stretches_.empty() && num_frames < frame_ + kFewestFrames) {
      TextStretch& last = stretches_.back();
      last.sure = last.sure && word_ == num_words;
      last.num_words += num_words - word_;
      last.end_frame = num_frames;
    } else {
      stretches_.push_back({word_, num_words - word_, frame_, num_frames, false});
    }
    return std::move(stretches_);
  }

 private:
  int usual_frames_;
  int word_ = 0, frame_ = 0;
  bool doubtful_ = false;  // what is before the next cut
  std::vector<TextStretch> stretches_;
};

}  // namespace

std::vector<std::pair<int, int>> MatchWords(WordIds text, WordIds found) { return WordMatcher(text, found).Run(); }

std::vector<TextStretch> CutAtAnchors(WordIds text, std::span<const FoundWord> found, int num_frames,
                                      int usual_frames) {
  std::vector<int32_t> words;
  for (const FoundWord& word : found) words.push_back(word.word);
  const Pairs pairs = MatchWords(text, words);
  Cutter cutter(usual_frames);
  for (const Anchor& anchor : FindAnchors(pairs, kAnchorWords)) cutter.Add(PlacesIn(anchor, pairs, found));
  return cutter.Take(static_cast<int>(text.size()), num_frames);
}

}  // namespace antiphon::pipeline
