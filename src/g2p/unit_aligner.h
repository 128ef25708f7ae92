// Cuts words and their pronunciations into units: few letters together with the phones that they stand for.
//
// A unit has one letter and none or several phones ("x" K S, a silent "e"), or several letters and one phone ("th" TH).
// Expectation-maximisation over all ways of cutting finds the units' probabilities, independent of each other; then
// each entry is cut in the best way. There a unit of n letters or phones has to outdo n units: the likelihood alone
// prefers few and large ones, which do not carry over to other words.
//
// Ids: letters and phones from 0. Memory: 4 bytes for each place of a unit in each entry, about 1 kB per word.
// Threads: entries in parallel; the result does not depend on how many.
// Source: Bisani and Ney, Joint-sequence models for grapheme-to-phoneme conversion, Speech Communication 2008;
// Jiampojamarn, Kondrak and Sherif, Many-to-many alignments, NAACL 2007; Novak, Minematsu and Hirose, Phonetisaurus,
// 2016.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace antiphon::g2p {

struct SpellingPair {
  std::vector<int32_t> letters;
  std::vector<int32_t> phones;
};

/// At least one letter.
struct Unit {
  std::vector<int32_t> letters;
  std::vector<int32_t> phones;
  auto operator<=>(const Unit&) const = default;
};

struct AlignmentOptions {
  int max_letters = 2;  // of a unit
  int max_phones = 2;
  int iterations = 10;
};

struct UnitAlignment {
  std::vector<Unit> units;                      // sorted
  std::vector<std::vector<int32_t>> sequences;  // by pair, of units; empty: no cut is possible
  double log_likelihood = 0.0;                  // of the last iteration, nats per pair that can be cut
};

/// Whether there is a cut at all: a pronunciation of more phones than the letters' units can have cannot be cut.
inline bool CanBeCut(const SpellingPair& pair, int max_phones) {
  return !pair.letters.empty() && pair.phones.size() <= pair.letters.size() * static_cast<size_t>(max_phones);
}

/// Every letter of a pair that can be cut has a unit by itself among `units`, the most probable one, whether or not it
/// stands in a sequence: so that any word over these letters can be said.
UnitAlignment AlignUnits(std::span<const SpellingPair> pairs, const AlignmentOptions& options, int num_threads);

}  // namespace antiphon::g2p
