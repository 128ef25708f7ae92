// What earlier speech says of the mean (and variance) that is taken out of a speaker's features.
#pragma once

#include <vector>

namespace antiphon::feat {

/// Sums over frames of one speaker, as known before an utterance.
struct SpeakerMean {
  double frames = 0;
  std::vector<double> sum = {};     // by dimension; empty without frames
  std::vector<double> square = {};  // of the squares; empty where only means are taken out (OnlineMean)

  bool operator==(const SpeakerMean&) const = default;
};

}  // namespace antiphon::feat
