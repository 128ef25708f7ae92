#include "antiphon/recognizer.h"

#include <optional>
#include <utility>

#include "api/audio_input.h"
#include "api/cancel.h"
#include "api/recognizer_impl.h"
#include "api/speaker_memory.h"
#include "api/speaker_profile.h"
#include "api/stream.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "pipeline/bundle.h"

namespace antiphon {
namespace {

constexpr int kMostHypotheses = 1000;  // of a call; few numbers are asked for, each keeps searches of its own

}  // namespace

Recognizer::Impl::Impl(const std::string& model_file, const std::string& graph_folder, const RecognizerOptions& options)
    : normalize_variance(options.normalize_variance),
      threads(options.threads),
      system(model_file, graph_folder, options),
      front_end(FrontEndOf(system.model(), model_file)),
      adaptation(system.Adaptation()) {}

std::shared_ptr<const Recognizer::Impl> Recognizer::Impl::Open(const std::string& model, const std::string& graph,
                                                               RecognizerOptions options) {
  const pipeline::BundleParts parts = pipeline::PartsAt(model);
  pipeline::CompleteBy(options, parts);
  options.bundles_written = parts.written;
  return std::make_shared<const Impl>(parts.model, pipeline::GraphOf(parts, graph), options);
}

const pipeline::UtteranceRecognizer& Recognizer::Impl::Giving(int nbest) const {
  if (nbest < 0 || nbest == system.options().recognize.nbest) return system.recognizer();
  const std::lock_guard lock(mutex);
  auto& chosen = giving[nbest];
  if (chosen == nullptr) chosen = system.Giving(nbest);
  return *chosen;
}

void Recognizer::Impl::WarnOfLiveSpeech() const {
  if (system.model().adaptive() == nullptr) return;
  std::call_once(warned_of_live_speech, [] {
    log::Warn(
        "the model is trained for features with a transform of who speaks (fMLLR), and is not to learn it "
        "(learn-speaker): it makes about a third more errors");
  });
}

pipeline::SpeakerTransforms Recognizer::Impl::Transforms(const std::shared_ptr<pipeline::RecordingFeatures>& features,
                                                         const std::vector<pipeline::SpeechTurn>* turns,
                                                         const std::function<void(double share)>& progress) const {
  if (!adaptation) return {};
  std::shared_ptr<pipeline::UtteranceFeatures> spoken = features;
  if (turns != nullptr) {
    spoken = std::make_shared<pipeline::TurnFeatures>(features, system.recognizer().RowsOfTurns(*features, *turns));
  }
  return adaptation
      ->Adapt({.sizes = {spoken->num_frames()},
               .speaker = [](size_t) { return std::string(); },
               .features = [&](size_t) { return spoken; },
               .progress = progress},
              /*num_threads=*/1, Team::Alone())
      .transforms;
}

Recognition Recognizer::Impl::Recognize(const AudioInput& input, const RecognizeSettings& settings) const {
  const CancelScope cancel(CancelTokenAccess::Flag(settings.cancel));
  std::optional<ComputeThreadsScope> scope;
  if (threads > 0) scope.emplace(threads);
  const AcousticModel& model = system.model();
  const pipeline::UtteranceRecognizer& recognizer = system.recognizer();
  const pipeline::VoiceActivity* activity = system.activity().get();
  ThrowIfCancelled("recognising");
  if (settings.nbest < -1 || settings.nbest > kMostHypotheses) {
    Throw<UsageError>("nbest is {}, expected 0 … {}, or -1 for the recogniser's", settings.nbest, kMostHypotheses);
  }
  pipeline::KnownSpeaker speaker{SpeakerProfileAccess::Bound(settings.profile, model.network().get())};
  pipeline::RecordingOptions of_this = NormalisationOf(model, normalize_variance, input.utterance);
  RememberedSpeaker heard;  // comes into the memory once all went well
  if (settings.memory != nullptr) {
    heard = SpeakerMemoryAccess::Values(*settings.memory, system.shared_model());
    of_this.speaker = heard.mean;
    speaker.heard = &heard.heard;
  }
  const auto features =
      std::make_shared<pipeline::RecordingFeatures>(front_end, input.pieces, input.sample_rate_hz, of_this);
  std::optional<pipeline::HeardSpeech> speech;
  if (activity != nullptr) speech = activity->Hear(input.pieces, input.sample_rate_hz);
  // Passes that adapt to the speaker take about as long as the recognition itself, each.
  const double whole_s = static_cast<double>(features->num_frames()) * recognizer.feature_shift_s();
  const int passes = 1 + (adaptation ? adaptation->passes() : 0);
  const double adapting_s = whole_s * (passes - 1) / passes;
  const auto adapted = [&](double share) {
    if (settings.progress) settings.progress(share * adapting_s);
  };
  const pipeline::SpeakerTransforms transforms = Transforms(features, speech ? &speech->turns : nullptr, adapted);
  if (!transforms.empty()) speaker.transform = &transforms.begin()->second;
  pipeline::PieceListener listener;
  int64_t searched = 0;
  if (settings.progress) {
    listener.searched = [&](int64_t frames) {
      searched += frames;
      settings.progress(adapting_s + static_cast<double>(searched) * recognizer.feature_shift_s() / passes);
    };
  }
  const pipeline::UtteranceRecognizer& chosen = Giving(settings.nbest);
  const decode::Recognition result =
      speech ? chosen.RecognizeTurns(*features, *speech, activity->least_contrast(), speaker, listener)
             : chosen.Recognize(*features, speaker, listener);
  if (settings.progress) settings.progress(whole_s);
  Recognition said = Describe(result, scale(recognizer.frame_shift_s()));
  if (pipeline::IsNothingButZeros(*features, recognizer.feature_shift_s())) return said;
  said.audio_remarks = features->check().Remarks(input.sample_rate_hz, front_end.options().sample_rate_hz);
  if (settings.memory != nullptr) {
    if (front_end.options().mean_window > 0) heard.mean = features->speaker();
    SpeakerMemoryAccess::Values(*settings.memory, system.shared_model()) = std::move(heard);
  }
  return said;
}

Recognizer::Recognizer(const std::string& model, const std::string& graph, const RecognizerSettings& settings)
    : impl_(Impl::Open(model, graph, OptionsOf(settings))) {}
Recognizer::Recognizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Recognition Recognizer::Recognize(std::span<const float> samples, int sample_rate_hz,
                                  const RecognizeSettings& settings) const {
  return impl_->Recognize(InputOf(samples, sample_rate_hz, settings.channel), settings);
}

Recognition Recognizer::RecognizeFile(const std::string& path, const RecognizeSettings& settings) const {
  return WithContext([&] { return impl_->Recognize(InputOf(path, settings.channel), settings); },
                     [&] { return fmt::format("recognising '{}'", path); });
}

Recognition Recognizer::RecognizeBytes(std::span<const std::byte> file, const RecognizeSettings& settings,
                                       const std::string& name) const {
  return WithContext([&] { return impl_->Recognize(InputOf(file, name, settings.channel), settings); },
                     [&] { return fmt::format("recognising '{}' ({} bytes)", name, file.size()); });
}

Stream Recognizer::NewStream(int sample_rate_hz, const StreamSettings& settings) const {
  return StreamAccess::Make(impl_, sample_rate_hz, settings);
}

SpeakerProfile Recognizer::LoadProfile(const std::string& file) const {
  return SpeakerProfileAccess::Load(file, impl_->system.model().network());
}

SpeakerMemory Recognizer::LoadMemory(const std::string& file) const {
  SpeakerMemory memory;
  SpeakerMemoryAccess::Values(memory, impl_->system.shared_model()) = antiphon::LoadMemory(file, impl_->system.model());
  return memory;
}

void Recognizer::SaveMemory(const SpeakerMemory& memory, const std::string& file) const {
  antiphon::SaveMemory(SpeakerMemoryAccess::Values(memory, impl_->system.model()), impl_->system.model(), file);
}

bool Recognizer::UsesMemory() const { return antiphon::UsesMemory(impl_->system.model()); }

std::vector<std::string> Recognizer::Vocabulary() const {
  const auto& words = impl_->system.graph().words();
  return {words.begin() + 1, words.end()};
}

int Recognizer::sample_rate_hz() const { return impl_->front_end.options().sample_rate_hz; }

}  // namespace antiphon
