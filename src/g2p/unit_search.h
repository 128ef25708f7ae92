// The most probable pronunciations of a word, by a joint n-gram over units.
//
// A breadth-first search over the letters keeps every history within a beam; the lattice that it leaves gives the best
// phone sequences (A* with exact costs to go) and the sum over all ways to cut the word, by which each is weighed:
// P(phones | letters) = Σ over cuts of these phones / Σ over all cuts. The empty pronunciation is none. With an
// infinite beam both sums are exact.
//
// Ids: letters and phones as in the units. Threads: const methods may run together.
// Source: Bisani and Ney, Speech Communication 2008; Mohri and Riley, An efficient algorithm for the n-best-strings
// problem, ICSLP 2002.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "g2p/unit_aligner.h"
#include "g2p/unit_ngram.h"

namespace antiphon::g2p {

struct FoundPronunciation {
  std::vector<int32_t> phones;
  double probability = 0.0;  // posterior
};

class UnitSearch {
 public:
  /// Both outlive it and stay where they are.
  UnitSearch(const std::vector<Unit>& units, const UnitNgram& ngram);

  /// Best first, at most `nbest`; empty if the letters cannot be said at all. Every letter has a unit by itself.
  std::vector<FoundPronunciation> Find(std::span<const int32_t> letters, int nbest, double beam) const;

 private:
  friend class PronunciationLattice;
  const std::vector<Unit>& units_;
  const UnitNgram& ngram_;
  size_t max_letters_ = 0;
  std::map<std::vector<int32_t>, int32_t> pieces_;    // letters of units
  std::vector<int32_t> piece_of_unit_;                // by unit
  std::vector<std::vector<int32_t>> units_of_piece_;  // by piece
};

}  // namespace antiphon::g2p
