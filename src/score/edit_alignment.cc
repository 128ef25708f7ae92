#include "score/edit_alignment.h"

#include <algorithm>
#include <limits>

namespace antiphon::score {
namespace {

// Least errors first, then most correct tokens, as one number: errors in the upper half, minus the correct ones below.
constexpr int64_t kError = int64_t{1} << 32;
constexpr int64_t kCorrect = -1;

}  // namespace

double ErrorCounts::Rate() const {
  if (reference_length() > 0) return static_cast<double>(errors()) / static_cast<double>(reference_length());
  return errors() == 0 ? 0.0 : std::numeric_limits<double>::infinity();
}

ErrorCounts& ErrorCounts::operator+=(const ErrorCounts& other) {
  correct += other.correct;
  substitutions += other.substitutions;
  deletions += other.deletions;
  insertions += other.insertions;
  return *this;
}

EditAlignment AlignTokens(std::span<const int32_t> reference, std::span<const int32_t> hypothesis) {
  const size_t rows = reference.size() + 1;
  const size_t cols = hypothesis.size() + 1;
  std::vector<Edit> last_edit(rows * cols);
  std::vector<int64_t> previous(cols), current(cols);
  for (size_t h = 0; h < cols; ++h) {
    current[h] = static_cast<int64_t>(h) * kError;
    last_edit[h] = Edit::kInsertion;
  }
  for (size_t r = 1; r < rows; ++r) {
    std::swap(previous, current);
    current[0] = static_cast<int64_t>(r) * kError;
    Edit* const edit_row = &last_edit[r * cols];
    edit_row[0] = Edit::kDeletion;
    for (size_t h = 1; h < cols; ++h) {
      const bool same = reference[r - 1] == hypothesis[h - 1];
      int64_t best = previous[h] + kError;
      Edit edit = Edit::kDeletion;
      if (const int64_t cost = current[h - 1] + kError; cost < best) best = cost, edit = Edit::kInsertion;
      if (const int64_t cost = previous[h - 1] + (same ? kCorrect : kError); cost < best) {
        best = cost;
        edit = same ? Edit::kCorrect : Edit::kSubstitution;
      }
      current[h] = best;
      edit_row[h] = edit;
    }
  }

  EditAlignment result;
  for (size_t r = rows - 1, h = cols - 1; r > 0 || h > 0;) {
    const Edit edit = last_edit[r * cols + h];
    result.edits.push_back(edit);
    if (edit != Edit::kInsertion) --r;
    if (edit != Edit::kDeletion) --h;
    switch (edit) {
      case Edit::kCorrect:
        ++result.counts.correct;
        break;
      case Edit::kSubstitution:
        ++result.counts.substitutions;
        break;
      case Edit::kDeletion:
        ++result.counts.deletions;
        break;
      case Edit::kInsertion:
        ++result.counts.insertions;
        break;
    }
  }
  std::reverse(result.edits.begin(), result.edits.end());
  return result;
}

}  // namespace antiphon::score
