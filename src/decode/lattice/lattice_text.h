// Lattices as text that Kaldi reads (compact lattices, "ark,t"), and back.
//
// Per utterance: its id on a line; "FROM TO WORD GRAPH,ACOUSTIC,ID_ID_…" per arc; "STATE GRAPH,ACOUSTIC,ID_…" per final
// state; an empty line. Words are ids of words.txt, ID transition-ids, costs −log without the acoustic scale. State 0
// is the start.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/lattice/lattice.h"

namespace antiphon::decode {

std::string LatticeToText(std::string_view utt_id, const Lattice& lattice);

/// The text of one lattice that is as long as a recording, from lattices of its pieces: where one ends, arcs without a
/// word lead to the next one's start.
class LatticeTextInPieces {
 public:
  explicit LatticeTextInPieces(std::string_view utt_id) : text_(std::string(utt_id) + "\n") {}
  /// Returns more of the text. Empty lattices are left out.
  std::string Add(Lattice piece);
  std::string Finish();

 private:
  std::string Take(bool last);

  std::string text_;
  Lattice piece_;  // not written yet
  int64_t first_state_ = 0;
};

/// The lattices that LatticeTextInPieces joined, one for each piece. A lattice that was not joined comes back alone;
/// none of an empty one.
std::vector<Lattice> SplitPieces(const Lattice& whole);

/// All lattices of a text, in its order. `source` stands in for the file name in errors (InputError with file:line).
/// Arcs must lead to higher states, as we write them and as Kaldi does after sorting.
std::vector<std::pair<std::string, Lattice>> ParseLattices(std::string_view text, const std::string& source);

}  // namespace antiphon::decode
