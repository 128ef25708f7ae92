// Levenshtein alignment of a hypothesis with its reference, with unit costs.
//
// The number of errors is the least possible. Several alignments may reach it with different splits into substitutions,
// deletions and insertions; the one with the most correct tokens is taken, which fixes all three counts: S, D and I do
// not depend on the order of a search. (Tools that break ties otherwise, sclite or Kaldi for instance, may print
// another split with the same total.) Where even that leaves a choice of places, errors stand as late as possible.
//
// Tokens are integers: equal tokens, equal ids. Time O(reference × hypothesis); memory O(√reference × hypothesis), as
// only some rows of costs are kept, and the edits between two of them are found anew on the way back.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace antiphon::score {

struct ErrorCounts {
  int64_t correct = 0;
  int64_t substitutions = 0;
  int64_t deletions = 0;
  int64_t insertions = 0;

  int64_t errors() const { return substitutions + deletions + insertions; }
  int64_t reference_length() const { return correct + substitutions + deletions; }
  int64_t hypothesis_length() const { return correct + substitutions + insertions; }
  /// Errors per reference token. With an empty reference: 0 without errors, else infinity.
  double Rate() const;
  ErrorCounts& operator+=(const ErrorCounts& other);
  bool operator==(const ErrorCounts&) const = default;
};

enum class Edit : uint8_t { kCorrect, kSubstitution, kDeletion, kInsertion };

struct EditAlignment {
  ErrorCounts counts;
  std::vector<Edit> edits;  // from the first token to the last
};

/// Aligns `hypothesis` with `reference`; either may be empty.
EditAlignment AlignTokens(std::span<const int32_t> reference, std::span<const int32_t> hypothesis);

}  // namespace antiphon::score
