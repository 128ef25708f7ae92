#include "score/edit_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

namespace {

// Rows of least costs, and of the last edit in each place, of which only a band of rows is held at a time.
class EditTable {
 public:
  EditTable(std::span<const int32_t> reference, std::span<const int32_t> hypothesis)
      : reference_(reference),
        hypothesis_(hypothesis),
        cols_(hypothesis.size() + 1),
        // A kept row has 8 bytes per place, a row of the band one: about as much for both.
        band_rows_(std::max<size_t>(256, static_cast<size_t>(std::sqrt(8.0 * static_cast<double>(reference.size()))))),
        costs_(cols_) {
    for (size_t h = 0; h < cols_; ++h) costs_[h] = static_cast<int64_t>(h) * kError;
    for (size_t r = 0; r + band_rows_ < reference.size(); r += band_rows_) {
      kept_.push_back(costs_);
      for (size_t k = 1; k <= band_rows_; ++k) NextRow(r + k, nullptr);
    }
    kept_.push_back(costs_);
    band_ = kept_.size();
  }

  /// With the first r and h tokens; to be asked for from the last row to the first.
  Edit LastEdit(size_t r, size_t h) {
    if (r == 0) return Edit::kInsertion;
    const size_t band = (r - 1) / band_rows_;
    if (band != band_) Fill(band);
    return edits_[(r - 1 - band * band_rows_) * cols_ + h];
  }

 private:
  void Fill(size_t band) {
    band_ = band;
    costs_ = std::move(kept_[band]);
    kept_.resize(band);
    const size_t first = band * band_rows_, rows = std::min(band_rows_, reference_.size() - first);
    edits_.resize(rows * cols_);
    for (size_t k = 0; k < rows; ++k) NextRow(first + k + 1, &edits_[k * cols_]);
  }

  // Costs of row r from those of the row before.
  void NextRow(size_t r, Edit* edits) {
    std::swap(previous_, costs_);
    costs_.resize(cols_);
    costs_[0] = static_cast<int64_t>(r) * kError;
    if (edits != nullptr) edits[0] = Edit::kDeletion;
    for (size_t h = 1; h < cols_; ++h) {
      const bool same = reference_[r - 1] == hypothesis_[h - 1];
      int64_t best = previous_[h] + kError;
      Edit edit = Edit::kDeletion;
      if (const int64_t cost = costs_[h - 1] + kError; cost < best) best = cost, edit = Edit::kInsertion;
      if (const int64_t cost = previous_[h - 1] + (same ? kCorrect : kError); cost < best) {
        best = cost;
        edit = same ? Edit::kCorrect : Edit::kSubstitution;
      }
      costs_[h] = best;
      if (edits != nullptr) edits[h] = edit;
    }
  }

  std::span<const int32_t> reference_, hypothesis_;
  size_t cols_, band_rows_;
  std::vector<int64_t> costs_, previous_;
  std::vector<std::vector<int64_t>> kept_;  // rows 0, band_rows_, 2 · band_rows_ …
  size_t band_;                             // whose edits are held
  std::vector<Edit> edits_;
};

}  // namespace

EditAlignment AlignTokens(std::span<const int32_t> reference, std::span<const int32_t> hypothesis) {
  EditTable table(reference, hypothesis);
  EditAlignment result;
  for (size_t r = reference.size(), h = hypothesis.size(); r > 0 || h > 0;) {
    const Edit edit = table.LastEdit(r, h);
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
