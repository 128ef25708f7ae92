#include "feat/speaker_mean.h"

#include <algorithm>
#include <cstddef>

namespace antiphon::feat {

void FillUp(const SpeakerMean& earlier, double room, SpeakerMean& window) {
  const double frames = std::min(earlier.frames, room);
  if (frames <= 0) return;
  window.frames += frames;
  const double share = frames / earlier.frames;
  for (size_t d = 0; d < earlier.sum.size(); ++d) window.sum[d] += share * earlier.sum[d];
  for (size_t d = 0; d < earlier.square.size(); ++d) window.square[d] += share * earlier.square[d];
}

}  // namespace antiphon::feat
