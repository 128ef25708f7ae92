#include "decode/lattice/confidence.h"

#include <algorithm>

#include "decode/lattice/expected_alignment.h"

namespace antiphon::decode {

std::vector<double> WordConfidences(const Lattice& lattice, const LatticeWeights& weights,
                                    std::span<const int32_t> hypothesis) {
  const std::vector<WordPosteriors> places = ExpectedAlignment(lattice, weights).Places(hypothesis);
  std::vector<double> confidences;
  for (size_t i = 0; i < hypothesis.size(); ++i) {
    confidences.push_back(std::clamp(PosteriorOf(places[2 * i + 1], hypothesis[i]), 0.0, 1.0));
  }
  return confidences;
}

}  // namespace antiphon::decode
