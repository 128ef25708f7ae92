// The frames of one utterance from its recording, as feature extraction stores them and as live stores make them.
//
// The recording's segment is read, brought to the front end's rate, varied if its copy is, and given to the front end;
// dither follows the utterance's name. Threads: pure functions. Errors: InputError naming wav.scp:line, recording and
// utterance.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/audio_source.h"
#include "data/data_dir.h"
#include "feat/augment.h"
#include "feat/front_end.h"
#include "math/matrix.h"

namespace antiphon::data::internal {

inline constexpr char kSpeedPrefix[] = "sp";
inline constexpr char kAugmentedPrefix[] = "aug";

/// One version of a data directory's recordings.
struct SpeechCopy {
  std::string prefix;                                // of utterance and speaker
  std::shared_ptr<const feat::Augmenter> augmenter;  // null: unchanged
};

/// An utterance in one version, by the name that it has there.
struct SpeechItem {
  std::string utt_id;
  std::string speaker;
  const Utterance* utterance = nullptr;
  const SpeechCopy* copy = nullptr;
};

/// The copy at another speed ("sp0.9-UTT"); `loudness`: what else varies it.
SpeechCopy CopyAtSpeed(double speed, feat::AugmentOptions loudness = {});
/// Of "sp0.9-UTT": 0.9; nothing for what is no such name.
std::optional<double> SpeedOf(std::string_view name);

/// Sorted by name. InputError for two of one name.
std::vector<SpeechItem> MakeItems(const DataDir& dir, const std::vector<SpeechCopy>& copies);

struct ComputedFrames {
  Matrix frames;
  double audio_s = 0.0;
  int rate_hz = 0;  // of the recording
  int channels_mixed = 1;
  std::vector<double> zeros;  // begin and end of each run in seconds
  bool in_parts = false;      // nothing but the error is set: whoever writes computes it
  std::string error;
  template <class V>
  void VisitFields(V& v) {
    v(zeros);
    v(in_parts);
    v(frames);
    v(audio_s);
    v(rate_hz);
    v(channels_mixed);
    v(error);
  }
};

struct RecordingOptions {
  int channel = -1;               // of recordings with several; −1: their mean
  bool silent_recordings = true;  // false: an error
  bool long_in_parts = false;     // see ComputedFrames::in_parts
  std::function<feat::Waveform(feat::Waveform)> vary = {};
};

ComputedFrames FramesOf(const SpeechItem& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                        const RecordingOptions& options);
/// The same; what is wrong stands in `error`. Cancelled is thrown.
ComputedFrames TryFramesOf(const SpeechItem& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                           const RecordingOptions& options);
/// Without the outermost context, which is the utterance: who reads the error has it already.
std::string ReasonOf(const Error& error);
/// Begins and ends one after another.
std::vector<double> Flat(const std::vector<std::pair<double, double>>& runs);

/// The front end with the mean of each dimension over utterances spread evenly over the data, where it needs that prior
/// and has none.
feat::FrontEndOptions WithMeanPrior(feat::FrontEndOptions front_end, const std::vector<SpeechItem>& items,
                                    const AudioSource& audio, const RecordingOptions& options, int num_threads);

}  // namespace antiphon::data::internal
