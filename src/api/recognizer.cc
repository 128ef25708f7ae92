#include "antiphon/recognizer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "api/speaker_memory.h"
#include "api/speaker_profile.h"
#include "base/config.h"
#include "base/error.h"
#include "data/audio_files.h"
#include "feat/audio.h"
#include "feat/front_end.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/load_profile.h"
#include "pipeline/load_rescorer.h"
#include "pipeline/recording_features.h"
#include "pipeline/speaker_adaptation.h"
#include "pipeline/utterance_recognizer.h"

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

decode::LatticeWeights ResultWeights(const RecognizerSettings& settings, const AcousticModel& model) {
  const double scale = settings.lm_weight > 0 ? 1.0 / settings.lm_weight
                                              : decode::AcousticScale(SearchOptions(settings).search, model.hmm());
  return {scale, settings.word_penalty};
}

}  // namespace

struct Recognizer::Impl {
  Impl(const std::string& model_file, const std::string& graph_folder, const RecognizerSettings& settings)
      : model(AcousticModel::Load(model_file, AdaptableOptions())),
        front_end(FrontEndOf(*model, model_file)),
        graph(decode::Graph::Load(graph_folder, model->hmm())),
        rescorer(pipeline::LoadRescorer(settings.rescore_arpa, settings.graph_arpa, graph)),
        recognizer(*model, graph, SearchOptions(settings), {}, ResultWeights(settings, *model),
                   pipeline::FeatureShiftSeconds(*model, model_file), rescorer.get()) {
    const std::string normalisation = model->normalisation();
    recording.normalize_mean = normalisation != "none";
    recording.normalize_variance = settings.normalize_variance || normalisation == "mean-variance";
    if (model->adaptive() == nullptr || settings.adapt_passes == 0) return;
    pipeline::SpeakerAdaptationOptions options;
    options.passes = settings.adapt_passes;
    options.graph = settings.adapt_graph;
    adaptation.emplace(*model, graph, SearchOptions(settings), decode::PieceOptions(), ResultWeights(settings, *model),
                       recognizer.feature_shift_s(), options);
  }

  // `audio` hands over the samples on the 16-bit scale, as often as it is asked to. `utterance` selects the dither.
  Recognition Recognize(data::AudioPieces audio, int rate_hz, uint64_t utterance, const SpeakerProfile& profile,
                        SpeakerMemory* memory) const {
    pipeline::KnownSpeaker speaker{SpeakerProfileAccess::Bound(profile, model->network().get())};
    pipeline::RecordingOptions options = recording;
    options.utterance = utterance;
    RememberedSpeaker heard;  // comes into the memory once all went well
    if (memory != nullptr) {
      heard = SpeakerMemoryAccess::Values(*memory, *model);
      options.speaker = heard.mean;
      speaker.heard = &heard.heard;
    }
    const auto features = std::make_shared<pipeline::RecordingFeatures>(front_end, std::move(audio), rate_hz, options);
    pipeline::SpeakerTransforms transforms;
    if (adaptation) {
      transforms = adaptation
                       ->Adapt({.sizes = {1},
                                .speaker = [](size_t) { return std::string(); },
                                .features = [&](size_t) { return features; }},
                               /*num_threads=*/1, Team::Alone())
                       .transforms;
      speaker.transform = &transforms.begin()->second;
    }
    const decode::Recognition result = recognizer.Recognize(*features, speaker);
    if (memory != nullptr && !pipeline::IsNothingButZeros(*features, recognizer.feature_shift_s())) {
      heard.mean = features->speaker();
      SpeakerMemoryAccess::Values(*memory, *model) = std::move(heard);
    }
    return Describe(result);
  }

  Recognition Describe(const decode::Recognition& result) const {
    Recognition recognition;
    recognition.remark = result.remark;
    const double shift_s = recognizer.frame_shift_s();
    for (size_t i = 0; i < result.times.words.size(); ++i) {
      const decode::TimedWord& timed = result.times.words[i];
      const std::string& word = graph.words()[static_cast<size_t>(timed.word)];
      recognition.text += (recognition.text.empty() ? "" : " ") + word;
      recognition.words.push_back({word, timed.begin_frame * shift_s, (timed.begin_frame + timed.num_frames) * shift_s,
                                   i < result.confidences.size() ? result.confidences[i] : 0.0});
    }
    return recognition;
  }

  std::unique_ptr<AcousticModel> model;
  feat::FrontEnd front_end;
  decode::Graph graph;
  std::unique_ptr<const decode::LmRescorer> rescorer;
  pipeline::UtteranceRecognizer recognizer;
  std::optional<pipeline::SpeakerAdaptation> adaptation;
  pipeline::RecordingOptions recording;
};

Recognizer::Recognizer(const std::string& model, const std::string& graph, const RecognizerSettings& settings)
    : impl_(std::make_unique<const Impl>(model, graph, settings)) {}
Recognizer::~Recognizer() = default;
Recognizer::Recognizer(Recognizer&&) noexcept = default;
Recognizer& Recognizer::operator=(Recognizer&&) noexcept = default;

SpeakerProfile Recognizer::LoadProfile(const std::string& file) const {
  return SpeakerProfileAccess::Load(file, impl_->model->network());
}

SpeakerMemory Recognizer::LoadMemory(const std::string& file) const {
  SpeakerMemory memory;
  SpeakerMemoryAccess::Values(memory, *impl_->model) = antiphon::LoadMemory(file, *impl_->model);
  return memory;
}

void Recognizer::SaveMemory(const SpeakerMemory& memory, const std::string& file) const {
  antiphon::SaveMemory(SpeakerMemoryAccess::Values(memory, *impl_->model), *impl_->model, file);
}

Recognition Recognizer::Recognize(std::span<const float> samples, int sample_rate_hz, const SpeakerProfile& profile,
                                  SpeakerMemory* memory) const {
  if (sample_rate_hz <= 0) Throw<InputError>("the sampling rate is {} Hz", sample_rate_hz);
  constexpr size_t kPieceSamples = 1 << 16;
  const auto audio = [&](const auto& sink) {
    std::vector<float> piece;
    for (size_t begin = 0; begin < samples.size(); begin += kPieceSamples) {
      piece.clear();
      for (const float sample : samples.subspan(begin, std::min(kPieceSamples, samples.size() - begin)))
        piece.push_back(sample * kFullScale);
      sink(piece);
    }
  };
  return impl_->Recognize(audio, sample_rate_hz, /*utterance=*/0, profile, memory);
}

Recognition Recognizer::RecognizeFile(const std::string& path, const SpeakerProfile& profile,
                                      SpeakerMemory* memory) const {
  const auto audio = [&](const auto& sink) {
    feat::AudioReader reader(path);
    for (std::vector<float> piece; reader.Read(piece);) sink(piece);
  };
  // As antiphon decode calls it.
  const uint64_t utterance = feat::UtteranceSeed(data::CleanId(std::filesystem::path(path).stem().string()));
  return WithContext(
      [&] { return impl_->Recognize(audio, feat::ProbeAudio(path).sample_rate_hz, utterance, profile, memory); },
      [&] { return fmt::format("recognising '{}'", path); });
}

std::vector<std::string> Recognizer::Vocabulary() const {
  const auto& words = impl_->graph.words();
  return {words.begin() + 1, words.end()};
}

}  // namespace antiphon
