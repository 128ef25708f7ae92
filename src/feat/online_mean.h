// The mean that is taken out of features while they are still coming: what training sees is what live recognition sees.
//
// Frame t loses the mean of the last `window` frames of the utterance, t included. While there are fewer, frames of the
// speaker's earlier speech fill up the window, as far as some are known, and then up to `prior_frames` frames that
// equal the prior, the mean of the training speech. So the first frame is handed out at once.
//
// Shapes: one frame per row. Units: frames. Threads: one per object. Errors: ShapeError for frames of another
// dimension. Bits do not depend on how the frames are cut into pieces. Source: Kaldi's online cepstral mean
// normalisation (src/feat/online-feature.h), whose defaults these are.
#pragma once

#include <cstdint>
#include <vector>

#include "feat/speaker_mean.h"
#include "math/matrix.h"

namespace antiphon::feat {

struct OnlineMeanOptions {
  int window = 600;
  int prior_frames = 200;
  std::vector<double> prior;  // one number per dimension
};

class OnlineMean {
 public:
  explicit OnlineMean(const OnlineMeanOptions& options, const SpeakerMean& speaker = {});
  /// The next frames of the utterance.
  void TakeOut(MatrixView frames);
  /// What the utterance's window and what was known before say of the speaker: for the next utterance.
  SpeakerMean speaker() const;

 private:
  OnlineMeanOptions options_;
  SpeakerMean speaker_;
  std::vector<float> ring_;  // the window's frames as they came, frame t in row t mod window
  int64_t num_frames_ = 0;
  std::vector<double> sum_;  // over the window
};

}  // namespace antiphon::feat
