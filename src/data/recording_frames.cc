#include "data/recording_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/thread_pool.h"
#include "data/feature_extraction.h"
#include "data/feature_parts.h"
#include "feat/audio_check.h"
#include "feat/cmvn.h"
#include "feat/zero_spans.h"

namespace antiphon::data {
namespace {

// What follows "sp0.9-" or "aug1-" if the name begins like that, else the whole name.
std::string_view WithoutPrefix(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return name;
  const size_t end = name.find_first_not_of("0123456789.", prefix.size());
  const bool number = end != std::string_view::npos && end > prefix.size() && name[end] == '-';
  return number ? name.substr(end + 1) : name;
}

void RequireSound(const feat::Waveform& wave) {
  feat::AudioCheck check;
  check.Accept(wave.samples);
  if (check.silent()) Throw<InputError>("there is nothing to hear: {}", check.Remarks().front());
}

bool IsLong(const internal::SpeechItem& item, const AudioSource& audio, const internal::RecordingOptions& options) {
  if (!options.long_in_parts || item.copy->augmenter) return false;
  const double known_s = item.utterance->duration_s;
  return (known_s >= 0 ? known_s : audio.Open(*item.utterance, options.channel).reader.duration_s()) > kLongRecordingS;
}

}  // namespace

std::string_view OriginalName(std::string_view name) {
  const std::string_view unspeeded = WithoutPrefix(name, internal::kSpeedPrefix);
  return unspeeded.size() < name.size() ? unspeeded : WithoutPrefix(name, internal::kAugmentedPrefix);
}

namespace internal {

SpeechCopy CopyAtSpeed(double speed, feat::AugmentOptions loudness) {
  loudness.speeds = {speed};
  return {fmt::format("{}{}-", kSpeedPrefix, speed), std::make_shared<const feat::Augmenter>(loudness)};
}

std::optional<double> SpeedOf(std::string_view name) {
  const size_t rest = WithoutPrefix(name, kSpeedPrefix).size();
  if (rest == name.size()) return std::nullopt;
  const std::string_view number = name.substr(0, name.size() - rest - 1).substr(sizeof kSpeedPrefix - 1);
  double speed = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), speed);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  return whole ? std::optional(speed) : std::nullopt;
}

std::vector<SpeechItem> MakeItems(const DataDir& dir, const std::vector<SpeechCopy>& copies) {
  std::vector<SpeechItem> items;
  for (const SpeechCopy& copy : copies) {
    for (const Utterance& utterance : dir.utterances()) {
      items.push_back({copy.prefix + utterance.utt_id, copy.prefix + utterance.speaker, &utterance, &copy});
    }
  }
  std::sort(items.begin(), items.end(), [](const SpeechItem& a, const SpeechItem& b) { return a.utt_id < b.utt_id; });
  for (size_t i = 1; i < items.size(); ++i) {
    if (items[i].utt_id == items[i - 1].utt_id) {
      Throw<InputError>("utterance '{}' and an augmented copy have the same name; rename the utterance",
                        items[i].utt_id);
    }
  }
  return items;
}

std::vector<double> Flat(const std::vector<std::pair<double, double>>& runs) {
  std::vector<double> flat;
  for (const auto& [begin_s, end_s] : runs) flat.insert(flat.end(), {begin_s, end_s});
  return flat;
}

std::string ReasonOf(const Error& e) {
  Error reason(e.message());
  for (size_t i = 0; i + 1 < e.contexts().size(); ++i) reason.AddContext(e.contexts()[i]);
  return reason.what();
}

ComputedFrames FramesOf(const SpeechItem& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                        const RecordingOptions& options) {
  ComputedFrames result;
  result.in_parts = IsLong(item, audio, options);
  if (result.in_parts) return result;
  feat::Waveform wave = audio.Read(*item.utterance, options.channel);
  if (!options.silent_recordings) RequireSound(wave);
  result.rate_hz = wave.sample_rate_hz;
  result.channels_mixed = wave.channels_mixed;
  feat::ZeroSpans zeros(wave.sample_rate_hz);
  zeros.Accept(wave.samples);
  result.zeros = Flat(zeros.Runs());
  wave = feat::Resample(std::move(wave), front_end.options().sample_rate_hz);
  const double before_s = wave.duration_s();
  if (item.copy->augmenter) wave = item.copy->augmenter->Apply(wave, item.utt_id);
  if (options.vary) wave = options.vary(std::move(wave));
  result.audio_s = wave.duration_s();
  // Found before, as resampling leaves a constant offset not quite constant; another speed moves them.
  for (double& time_s : result.zeros) time_s *= before_s > 0 ? result.audio_s / before_s : 1.0;
  result.frames = front_end.Compute(wave.samples, feat::UtteranceSeed(item.utt_id));
  if (result.frames.rows() == 0) {
    result.error = fmt::format("{:.4f} s of audio give no frame; at least {} ms are needed", wave.duration_s(),
                               front_end.options().frame_length_ms);
  }
  return result;
}

ComputedFrames TryFramesOf(const SpeechItem& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                           const RecordingOptions& options) {
  try {
    return FramesOf(item, audio, front_end, options);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& e) {
    ComputedFrames result;
    result.error = ReasonOf(e);
    return result;
  }
}

feat::FrontEndOptions WithMeanPrior(feat::FrontEndOptions front_end, const std::vector<SpeechItem>& items,
                                    const AudioSource& audio, const RecordingOptions& options, int num_threads) {
  constexpr size_t kMostUtterances = 400;  // enough for a prior
  if (front_end.mean_window == 0 || !front_end.mean_prior.empty()) return front_end;
  feat::FrontEndOptions plain = front_end;
  plain.mean_window = 0;
  const feat::FrontEnd computes(plain);
  RecordingOptions whole = options;
  whole.long_in_parts = false;
  const size_t step = (items.size() + kMostUtterances - 1) / kMostUtterances;
  feat::CmvnStats stats(computes.dim());
  ParallelInOrder<ComputedFrames>(
      items.empty() ? 0 : (items.size() - 1) / step + 1, num_threads,
      [&](size_t i) { return TryFramesOf(items[i * step], audio, computes, whole); },
      [&](size_t, ComputedFrames&& computed) {
        if (computed.error.empty()) stats.Add(computed.frames);
      });
  front_end.mean_prior.assign(static_cast<size_t>(computes.dim()), 0.0);
  for (size_t d = 0; d < front_end.mean_prior.size() && stats.count() > 0; ++d) {
    front_end.mean_prior[d] = stats.matrix()(0, static_cast<int64_t>(d)) / stats.count();
  }
  return front_end;
}

}  // namespace internal
}  // namespace antiphon::data
