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

/// Adds to the sums of a window as many of the speaker's earlier frames as there is room for in it (frames; below 0:
/// none).
void FillUp(const SpeakerMean& earlier, double room, SpeakerMean& window);

}  // namespace antiphon::feat
