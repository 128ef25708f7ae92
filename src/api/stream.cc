#include "api/stream.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "api/alive.h"
#include "api/audio_input.h"
#include "api/cancel.h"
#include "api/describe.h"
#include "api/internal.h"
#include "api/speaker_memory.h"
#include "api/speaker_profile.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/options.h"
#include "feat/audio.h"
#include "feat/audio_check.h"

namespace antiphon {
namespace {

// Louder ones are no sound: they would overflow in the features.
constexpr float kLoudest = 1e6F;

LiveOptions OptionsOf(const StreamSettings& settings) {
  LiveOptions options;
  options.cmvn.window = settings.cmvn_window;
  options.cmvn.min_window = settings.cmvn_min_window;
  options.cmvn.normalize_variance = settings.normalize_variance;
  options.step_frames = settings.step_frames;
  options.max_utterance_s = settings.max_utterance_s;
  options.silence_s = settings.endpoint_silence_s;
  options.learn_speaker = settings.learn_speaker;
  // As text once, for the limits.
  return WithContext([&] { return ReadOptions<LiveOptions>(OptionsToConfig(options)); },
                     [] { return "StreamSettings"; });
}

constexpr char kStream[] = "Stream";

}  // namespace

struct ANTIPHON_INTERNAL Stream::Impl {
  Impl(std::shared_ptr<const RecognizerAccess::Impl> its_recognizer, int sample_rate_hz,
       const StreamSettings& its_settings)
      : recognizer(std::move(its_recognizer)),
        settings(its_settings),
        remembered(SpeakerMemoryAccess::Values(settings.memory, recognizer->system.shared_model())),
        recognize(OptionsFor(settings, recognizer->system.options().recognize)),
        own_bias(settings.hotwords.empty() && settings.word_list.empty()
                     ? nullptr
                     : decode::MakeBias(recognizer->system.graph(), recognize.bias)),
        live(
            recognizer->system.model(), recognizer->system.graph(), recognize, recognizer->system.weights(),
            OptionsOf(settings), [this](const LiveResult& result) { Note(result); },
            SpeakerProfileAccess::Bound(settings.profile, recognizer->system.model().network().get()), &remembered,
            recognizer->system.rescorer(), own_bias ? own_bias.get() : recognizer->system.bias(),
            recognizer->system.activity().get()),
        rate_hz(sample_rate_hz),
        resampler(sample_rate_hz, live.sample_rate_hz()) {
    if (!settings.learn_speaker) recognizer->WarnOfLiveSpeech();
  }

  void Note(const LiveResult& result) {
    if (!result.final && !settings.partial) return;
    events.push_back(antiphon::Describe(result, recognizer->scale(live.frame_shift_s(), own_bias.get())));
  }

  // What `work` makes of more speech, or of its end. An error in the middle of it leaves nothing to go on with.
  template <class Work>
  std::vector<StreamEvent> Do(Work&& work) {
    if (over) throw UsageError("the stream is over, after End or an error: a new one is needed for more speech");
    const CancelScope cancel(CancelTokenAccess::Flag(settings.cancel));
    const ComputeThreadsScope threads(std::max(1, recognizer->threads));
    over = true;
    ThrowIfCancelled("listening");
    events.clear();
    over = !work();
    return std::move(events);
  }

  bool Hear() {
    check.Accept(scaled);  // before resampling, which rounds off what is clipped
    resampled.clear();
    resampler.Accept(scaled, resampled);
    live.Accept(resampled);
    return true;
  }

  bool End() {
    resampled.clear();
    resampler.Finish(resampled);
    live.Accept(resampled);
    live.Finish();
    SpeakerMemoryAccess::Values(settings.memory, recognizer->system.shared_model()) = remembered;
    return false;
  }

  std::shared_ptr<const RecognizerAccess::Impl> recognizer;
  StreamSettings settings;
  RememberedSpeaker remembered;
  decode::RecognizeOptions recognize;
  std::unique_ptr<const decode::WordBias> own_bias;  // null: the recogniser's
  LiveRecognizer live;
  int rate_hz;
  feat::AudioCheck check;
  feat::Resampler resampler;
  std::vector<float> scaled, resampled;
  std::vector<StreamEvent> events;
  bool over = false;
};

Stream StreamAccess::Make(std::shared_ptr<const RecognizerAccess::Impl> recognizer, int sample_rate_hz,
                          const StreamSettings& settings) {
  RequireRate(sample_rate_hz);
  return Stream(std::make_unique<Stream::Impl>(std::move(recognizer), sample_rate_hz, settings));
}

Stream::Stream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

// Refuses what is not finite before any sample is taken.
std::vector<StreamEvent> Stream::Accept(std::span<const float> samples) {
  Impl& stream = Alive(impl_, kStream);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::fabs(samples[i]) <= kLoudest) continue;
    Throw<InputError>("sample {} of {} is {}, expected -1 … 1; none of them is taken", i, samples.size(), samples[i]);
  }
  return stream.Do([&] {
    stream.scaled.clear();
    for (const float sample : samples) stream.scaled.push_back(sample * kFullScale);
    return stream.Hear();
  });
}

std::vector<StreamEvent> Stream::Accept(std::span<const int16_t> samples) {
  Impl& stream = Alive(impl_, kStream);
  return stream.Do([&] {
    stream.scaled.assign(samples.begin(), samples.end());
    return stream.Hear();
  });
}

std::vector<StreamEvent> Stream::End() {
  Impl& stream = Alive(impl_, kStream);
  return stream.Do([&] { return stream.End(); });
}

bool Stream::ended() const { return !impl_ || impl_->over; }

std::vector<std::string> Stream::AudioRemarks() const {
  const Impl& stream = Alive(impl_, kStream);
  return stream.check.Remarks(stream.rate_hz, stream.live.sample_rate_hz());
}

const SpeakerMemory& Stream::memory() const { return Alive(impl_, kStream).settings.memory; }

StreamSettings SettingsOf(const LiveOptions& options) {
  StreamSettings settings;
  settings.step_frames = options.step_frames;
  settings.endpoint_silence_s = options.silence_s;
  settings.max_utterance_s = options.max_utterance_s;
  settings.learn_speaker = options.learn_speaker;
  settings.cmvn_window = options.cmvn.window;
  settings.cmvn_min_window = options.cmvn.min_window;
  settings.normalize_variance = options.cmvn.normalize_variance;
  return settings;
}

}  // namespace antiphon
