#include "antiphon/recognizer.h"

#include "api/acoustic_model.h"
#include "api/speaker_profile.h"
#include "base/config.h"
#include "base/error.h"
#include "decode/recognizer_pool.h"
#include "feat/audio.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"

namespace antiphon {
namespace {

constexpr float kFullScale = 32768.0f;

feat::FrontEnd FrontEndOf(const AcousticModel& model, const std::string& file) {
  const std::string toml = model.features();
  if (toml.empty()) {
    Throw<InputError>("'{}' does not say what its features are: train it with --front-end", file);
  }
  return feat::FrontEnd(ReadOptions<feat::FrontEndOptions>(Config::Parse(toml, file + " (features)")));
}

decode::RecognizeOptions SearchOptions(const RecognizerSettings& settings) {
  decode::RecognizeOptions options;
  options.search.beam = settings.beam;
  options.search.acoustic_scale = settings.acoustic_scale;
  return options;
}

}  // namespace

struct Recognizer::Impl {
  Impl(const std::string& model_file, const std::string& graph_folder, const RecognizerSettings& its_settings)
      : settings(its_settings),
        model(AcousticModel::Load(model_file, AdaptableOptions())),
        front_end(FrontEndOf(*model, model_file)),
        graph(decode::Graph::Load(graph_folder, model->hmm())),
        searches(graph, model->hmm(), SearchOptions(settings)) {}

  Recognition Recognize(feat::Waveform wave, const SpeakerProfile& profile) const {
    auto bound = SpeakerProfileAccess::Bound(profile, model->network().get());
    wave = feat::Resample(std::move(wave), front_end.options().sample_rate_hz);
    Matrix frames = front_end.Compute(wave.samples);
    if (frames.rows() > 0) feat::NormalizeUtterance(frames, settings.normalize_variance);
    const double scale = settings.lm_weight > 0 ? 1.0 / settings.lm_weight : settings.acoustic_scale;
    const auto scores = model->Score(std::move(frames), std::move(bound));
    return Describe(searches.Borrow()->Recognize(*scores, {scale, settings.word_penalty}));
  }

  Recognition Describe(const decode::Recognition& result) const {
    const double shift_s = front_end.options().frame_shift_ms / 1000.0;
    Recognition recognition;
    recognition.remark = result.remark;
    for (size_t i = 0; i < result.times.words.size(); ++i) {
      const decode::TimedWord& timed = result.times.words[i];
      const std::string& word = graph.words()[static_cast<size_t>(timed.word)];
      recognition.text += (recognition.text.empty() ? "" : " ") + word;
      recognition.words.push_back({word, timed.begin_frame * shift_s, (timed.begin_frame + timed.num_frames) * shift_s,
                                   i < result.confidences.size() ? result.confidences[i] : 0.0});
    }
    return recognition;
  }

  RecognizerSettings settings;
  std::unique_ptr<AcousticModel> model;
  feat::FrontEnd front_end;
  decode::Graph graph;
  mutable decode::RecognizerPool searches;
};

Recognizer::Recognizer(const std::string& model, const std::string& graph, const RecognizerSettings& settings)
    : impl_(std::make_unique<const Impl>(model, graph, settings)) {}
Recognizer::~Recognizer() = default;
Recognizer::Recognizer(Recognizer&&) noexcept = default;
Recognizer& Recognizer::operator=(Recognizer&&) noexcept = default;

SpeakerProfile Recognizer::LoadProfile(const std::string& file) const {
  return SpeakerProfileAccess::Load(file, impl_->model->network());
}

Recognition Recognizer::Recognize(std::span<const float> samples, int sample_rate_hz,
                                  const SpeakerProfile& profile) const {
  if (sample_rate_hz <= 0) Throw<InputError>("the sampling rate is {} Hz", sample_rate_hz);
  feat::Waveform wave;
  wave.sample_rate_hz = sample_rate_hz;
  wave.samples.reserve(samples.size());
  for (const float sample : samples) wave.samples.push_back(sample * kFullScale);
  return impl_->Recognize(std::move(wave), profile);
}

Recognition Recognizer::RecognizeFile(const std::string& path, const SpeakerProfile& profile) const {
  return WithContext([&] { return impl_->Recognize(feat::ReadAudio(path), profile); },
                     [&] { return fmt::format("recognising '{}'", path); });
}

std::vector<std::string> Recognizer::Vocabulary() const {
  const auto& words = impl_->graph.words();
  return {words.begin() + 1, words.end()};
}

}  // namespace antiphon
