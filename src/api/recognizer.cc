#include "antiphon/recognizer.h"

#include <algorithm>
#include <functional>

#include "api/acoustic_model.h"
#include "api/speaker_profile.h"
#include "base/config.h"
#include "base/error.h"
#include "decode/recognize_in_pieces.h"
#include "decode/recognizer_pool.h"
#include "feat/audio.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"
#include "feat/zero_spans.h"

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

  // `audio(sink)` hands the samples to sink in pieces, on the 16-bit scale; it may be called twice.
  using Sink = std::function<void(std::span<const float>)>;
  using Audio = std::function<void(const Sink& sink)>;

  // Frames of the audio, as they are ready, to use(frames, ended).
  void Frames(const Audio& audio, int rate_hz, const std::function<void(Matrix&&, bool)>& use) const {
    feat::FrontEndStream stream(front_end);
    feat::Resampler resampler(rate_hz, front_end.options().sample_rate_hz);
    std::vector<float> samples;
    audio([&](std::span<const float> piece) {
      samples.clear();
      resampler.Accept(piece, samples);
      stream.Accept(samples);
      if (stream.frames_ready() > 0) use(stream.Take(), false);
    });
    samples.clear();
    resampler.Finish(samples);
    stream.Accept(samples);
    stream.Finish();
    use(stream.Take(), true);
  }

  Recognition Recognize(const Audio& audio, int rate_hz, const SpeakerProfile& profile) const {
    const auto bound = SpeakerProfileAccess::Bound(profile, model->network().get());
    // Of a long recording the frames are computed twice: all of them are needed to know their mean.
    feat::ZeroSpans zeros(rate_hz);
    feat::CmvnStats stats(front_end.dim());
    std::vector<float> kept;
    int64_t num_frames = 0;
    const auto cuts = [&] { return pieces.Cuts(num_frames, feature_shift_s()); };
    Frames(
        [&](const Sink& sink) {
          audio([&](std::span<const float> samples) {
            zeros.Accept(samples);
            sink(samples);
          });
        },
        rate_hz,
        [&](Matrix&& frames, bool) {
          if (frames.rows() == 0) return;
          stats.Add(frames);
          num_frames += frames.rows();
          kept.insert(kept.end(), frames.data(), frames.data() + frames.size());
          if (cuts()) kept = {};
        });
    const double scale = settings.lm_weight > 0 ? 1.0 / settings.lm_weight
                                                : decode::AcousticScale(SearchOptions(settings).search, model->hmm());
    const decode::LatticeWeights weights{scale, settings.word_penalty};
    if (cuts()) return RecognizeLong(audio, rate_hz, stats, zeros, weights, bound);
    if (zeros.Cover(0, static_cast<double>(num_frames) * feature_shift_s(), feature_shift_s())) return Silence();
    Matrix frames(num_frames, front_end.dim());
    std::copy(kept.begin(), kept.end(), frames.data());
    Normalize(stats, frames);
    const auto scores = model->Score(std::move(frames), bound);
    return Describe(searches.Borrow()->Recognize(*scores, weights));
  }

  Recognition RecognizeLong(const Audio& audio, int rate_hz, const feat::CmvnStats& stats, const feat::ZeroSpans& zeros,
                            const decode::LatticeWeights& weights,
                            std::shared_ptr<const infer::BoundProfile> profile) const {
    const auto recognizer = searches.Borrow();
    const auto scores = model->Stream(std::move(profile), nullptr);
    decode::JoinPieces whole(/*nbest=*/0);
    decode::RecognizeInPieces search(*recognizer, pieces, weights, shift_s(), [&](decode::Piece&& piece) {
      const double begin_s = static_cast<double>(piece.begin_frame) * shift_s();
      if (zeros.Cover(begin_s, begin_s + piece.num_frames * shift_s(), shift_s())) {
        piece.recognition = {};
        piece.recognition.remark = feat::kAllZeroRemark;
      }
      whole.Add(piece, weights);
    });
    Frames(audio, rate_hz, [&](Matrix&& frames, bool ended) {
      Normalize(stats, frames);
      scores->Accept(frames, ended);
      search.Advance(*scores);
    });
    search.Finish(*scores);
    return Describe(whole.Take(shift_s()));
  }

  // Unless the front end takes a mean out itself.
  void Normalize(const feat::CmvnStats& stats, Matrix& frames) const {
    if (frames.rows() > 0 && front_end.options().mean_window == 0) stats.Apply(frames, settings.normalize_variance);
  }

  Recognition Silence() const {
    Recognition nothing;
    nothing.remark = feat::kAllZeroRemark;
    return nothing;
  }

  double feature_shift_s() const { return front_end.options().frame_shift_ms / 1000.0; }
  // Of the search's frames.
  double shift_s() const { return feature_shift_s() * model->subsampling(); }

  Recognition Describe(const decode::Recognition& result) const {
    Recognition recognition;
    recognition.remark = result.remark;
    for (size_t i = 0; i < result.times.words.size(); ++i) {
      const decode::TimedWord& timed = result.times.words[i];
      const std::string& word = graph.words()[static_cast<size_t>(timed.word)];
      recognition.text += (recognition.text.empty() ? "" : " ") + word;
      recognition.words.push_back({word, timed.begin_frame * shift_s(),
                                   (timed.begin_frame + timed.num_frames) * shift_s(),
                                   i < result.confidences.size() ? result.confidences[i] : 0.0});
    }
    return recognition;
  }

  RecognizerSettings settings;
  decode::PieceOptions pieces;
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
  constexpr size_t kPieceSamples = 1 << 16;
  const auto audio = [&](const Impl::Sink& sink) {
    std::vector<float> piece;
    for (size_t begin = 0; begin < samples.size(); begin += kPieceSamples) {
      piece.clear();
      for (const float sample : samples.subspan(begin, std::min(kPieceSamples, samples.size() - begin)))
        piece.push_back(sample * kFullScale);
      sink(piece);
    }
  };
  return impl_->Recognize(audio, sample_rate_hz, profile);
}

Recognition Recognizer::RecognizeFile(const std::string& path, const SpeakerProfile& profile) const {
  const auto audio = [&](const Impl::Sink& sink) {
    feat::AudioReader reader(path);
    for (std::vector<float> piece; reader.Read(piece);) sink(piece);
  };
  return WithContext([&] { return impl_->Recognize(audio, feat::ProbeAudio(path).sample_rate_hz, profile); },
                     [&] { return fmt::format("recognising '{}'", path); });
}

std::vector<std::string> Recognizer::Vocabulary() const {
  const auto& words = impl_->graph.words();
  return {words.begin() + 1, words.end()};
}

}  // namespace antiphon
