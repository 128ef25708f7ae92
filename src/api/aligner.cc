#include "antiphon/aligner.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "api/aligner_options.h"
#include "api/audio_input.h"
#include "api/cancel.h"
#include "api/internal.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/config.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "feat/front_end.h"
#include "hmm/lexicon.h"
#include "hmm/utterance_source.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/align_with_model.h"
#include "pipeline/aligned_times.h"
#include "pipeline/bundle.h"
#include "pipeline/new_words.h"
#include "pipeline/recording_features.h"
#include "pipeline/utterance_recognizer.h"

namespace antiphon {
namespace {

AlignerOptions OptionsOf(const AlignerSettings& settings) {
  AlignerOptions given;
  given.adapt = settings.adapt;
  given.threads = settings.threads;
  given.training.align.beam = settings.beam;
  given.training.align.retry_beam = settings.retry_beam;
  given.training.map_unknown_words = settings.map_unknown_words;
  given.nnet.precision = settings.precision;
  // As text once, so that the limits of the options hold for the fields too.
  const auto checked = WithContext([&] { return ReadOptions<AlignerOptions>(OptionsToConfig(given)); },
                                   [] { return "AlignerSettings"; });
  return ReadOptions<AlignerOptions>(Config::Parse(settings.options, "AlignerSettings::options"), {}, checked);
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::istringstream in(ComposeUtf8(text));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<g2p::Model> NewWordsBy(const std::string& file, const hmm::Lexicon& lexicon) {
  if (file.empty()) return std::nullopt;
  g2p::Model model = g2p::Model::Load(file);
  pipeline::RequirePhones(model, lexicon, file);
  return model;
}

// The one utterance of its speaker.
class OneUtterance : public hmm::UtteranceSource {
 public:
  OneUtterance(Matrix features, std::vector<std::string> words)
      : features_(std::move(features)), words_(std::move(words)) {}

  size_t size() const override { return 1; }
  const std::string& Id(size_t) const override { return id_; }
  const std::string& Speaker(size_t) const override { return id_; }
  const std::vector<std::string>& Words(size_t) const override { return words_; }
  Matrix Features(size_t) const override { return features_; }

 private:
  std::string id_ = "audio";
  Matrix features_;
  std::vector<std::string> words_;
};

}  // namespace

struct ANTIPHON_INTERNAL Aligner::Impl {
  Impl(const pipeline::BundleParts& parts, const std::string& lexicon_file, const AlignerSettings& settings)
      : options(OptionsOf(settings)),
        model(AcousticModel::Load(parts.model, options.nnet)),
        front_end(FrontEndOf(*model, parts.model)),
        lexicon(pipeline::LexiconOf(parts, lexicon_file, options.lexicon, model->hmm())),
        new_words(NewWordsBy(parts.g2p, *lexicon)),
        feature_shift_s(pipeline::FeatureShiftSeconds(*model, parts.model)),
        frame_shift_s(feature_shift_s * model->subsampling()) {}

  AlignedSpeech Align(const AudioInput& input, std::string_view text, const AlignSettings& settings) const {
    const CancelScope cancel(CancelTokenAccess::Flag(settings.cancel));
    std::optional<ComputeThreadsScope> threads;
    if (options.threads > 0) threads.emplace(options.threads);
    ThrowIfCancelled("aligning");
    int64_t samples = 0;
    const data::AudioPieces audio = [&](const auto& sink) {
      samples = 0;
      input.pieces([&](std::span<const float> piece) {
        samples += std::ssize(piece);
        sink(piece);
      });
    };
    pipeline::RecordingFeatures features(front_end, audio, input.sample_rate_hz,
                                         NormalisationOf(*model, /*normalize_variance=*/false, input.utterance));
    const OneUtterance source(features.Whole(), WordsOf(text));
    const auto words = LexiconFor(source.Words(0));
    const int num_threads = options.threads > 0 ? options.threads : NumCores();
    const pipeline::AlignByModelOptions how{options.training, options.gaps, options.adapt, feature_shift_s};
    const hmm::GmmTrainingResult result =
        pipeline::AlignWithModel(*model, source, /*sizes=*/{1}, *words, how, num_threads, Team::Alone());
    if (!result.alignments[0].ok()) {
      Throw<InputError>("{} words cannot be aligned with {:.2f} s of audio: {}", source.Words(0).size(),
                        static_cast<double>(samples) / input.sample_rate_hz, result.report.skipped.at(0).reason);
    }
    const auto finer = pipeline::FinerPhonesOf(*model, source, /*sizes=*/{1}, result, how, num_threads, Team::Alone());
    pipeline::FinePhones fine;
    if (!finer.empty()) fine = {finer[0], feature_shift_s};
    AlignedSpeech speech = Describe(result.alignments[0], result.words[0], *words, fine);
    speech.duration_s = std::max(static_cast<double>(samples) / input.sample_rate_hz,
                                 speech.phones.empty() ? 0.0 : speech.phones.back().end_s);
    return speech;
  }

  // With the words of the text that it lacks, if the bundle can pronounce them.
  std::shared_ptr<const hmm::Lexicon> LexiconFor(const std::vector<std::string>& words) const {
    if (!new_words) return lexicon;
    const pipeline::NewWords added = pipeline::PronounceNewWords(*lexicon, words, *new_words, {}, /*num_threads=*/1);
    if (added.words.empty()) return lexicon;
    return std::make_shared<const hmm::Lexicon>(pipeline::WithNewWords(*lexicon, added, "the bundle"));
  }

  AlignedSpeech Describe(const hmm::Alignment& alignment, const hmm::WordIds& words, const hmm::Lexicon& names,
                         const pipeline::FinePhones& fine) const {
    const auto times = pipeline::TimesOf(alignment, model->hmm(), names, words, frame_shift_s, fine);
    AlignedSpeech speech;
    speech.log_likelihood = times.log_likelihood;
    speech.retried = times.retried;
    speech.unknown_words = times.unknown_words;
    for (const pipeline::UnalignedPart& part : times.unaligned) {
      speech.unaligned.push_back({part.start_s, part.end_s, part.words});
    }
    for (const pipeline::TimedWord& word : times.words) {
      speech.words.push_back({word.word, word.start_s, word.end_s, word.first_phone, word.num_phones});
    }
    for (const pipeline::TimedPhone& phone : times.phones) {
      speech.phones.push_back({phone.phone, phone.start_s, phone.end_s});
    }
    return speech;
  }

  AlignerOptions options;
  std::unique_ptr<AcousticModel> model;
  feat::FrontEnd front_end;
  std::shared_ptr<const hmm::Lexicon> lexicon;
  std::optional<g2p::Model> new_words;  // the bundle's
  double feature_shift_s;
  double frame_shift_s;
};

Aligner::Aligner(const std::string& model, const std::string& lexicon, const AlignerSettings& settings)
    : impl_(std::make_shared<const Impl>(pipeline::PartsAt(model), lexicon, settings)) {}

AlignedSpeech Aligner::Align(std::span<const float> samples, int sample_rate_hz, std::string_view text,
                             const AlignSettings& settings) const {
  return impl_->Align(InputOf(samples, sample_rate_hz, settings.channel), text, settings);
}

AlignedSpeech Aligner::AlignFile(const std::string& path, std::string_view text, const AlignSettings& settings) const {
  return WithContext([&] { return impl_->Align(InputOf(path, settings.channel), text, settings); },
                     [&] { return fmt::format("aligning '{}'", path); });
}

}  // namespace antiphon
