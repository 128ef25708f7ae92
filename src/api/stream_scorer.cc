#include "antiphon/stream_scorer.h"

#include "api/alive.h"
#include "api/internal.h"
#include "api/model_impl.h"
#include "api/speaker_profile.h"
#include "base/error.h"
#include "infer/stream_pool.h"

namespace antiphon {
namespace {

constexpr char kScorer[] = "StreamScorer";
constexpr char kScorerStream[] = "StreamScorer::Stream";

infer::StreamPoolOptions PoolOptions(const StreamScorerSettings& settings, const infer::NnetModel& network) {
  const auto require = [](bool fits, const char* name, auto value, const std::string& expected) {
    if (!fits) Throw<UsageError>("StreamScorerSettings: {} is {}, expected {}", name, value, expected);
  };
  const int most = network.options().block_frames;
  require(settings.max_streams >= 1, "max_streams", settings.max_streams, "1 or more");
  require(settings.batch >= 1 && settings.batch <= most, "batch", settings.batch, fmt::format("1 … {}", most));
  require(settings.deadline_s > 0, "deadline_s", settings.deadline_s, "more than 0");
  return {.max_streams = settings.max_streams, .batch = settings.batch, .deadline_s = settings.deadline_s};
}

}  // namespace

struct ANTIPHON_INTERNAL StreamScorer::Impl {
  Impl(std::shared_ptr<const infer::NnetModel> its_network, const StreamScorerSettings& settings)
      : network(std::move(its_network)), pool(network, PoolOptions(settings, *network)) {}

  std::shared_ptr<const infer::NnetModel> network;
  infer::StreamPool pool;
};

struct ANTIPHON_INTERNAL StreamScorer::Stream::State {
  State(std::shared_ptr<Impl> its_scorer, int its_id) : scorer(std::move(its_scorer)), id(its_id) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { scorer->pool.Close(id); }

  std::shared_ptr<Impl> scorer;
  int id;
  bool finished = false;
};

StreamScorer::StreamScorer(const Model& model, const StreamScorerSettings& settings)
    : impl_(std::make_shared<Impl>(Alive(model.impl_, "Model").network, settings)) {}
StreamScorer::~StreamScorer() = default;
StreamScorer::StreamScorer(StreamScorer&&) noexcept = default;
StreamScorer& StreamScorer::operator=(StreamScorer&&) noexcept = default;

StreamScorer::Stream StreamScorer::Open(const SpeakerProfile& profile) {
  Impl& scorer = Alive(impl_, kScorer);
  const int id = scorer.pool.Open(SpeakerProfileAccess::Bound(profile, scorer.network.get()));
  return Stream(std::make_unique<Stream::State>(impl_, id));
}

int StreamScorer::RunBatch(double now_s) { return Alive(impl_, kScorer).pool.RunBatch(now_s); }

StreamScorer::Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamScorer::Stream::~Stream() = default;
StreamScorer::Stream::Stream(Stream&&) noexcept = default;
StreamScorer::Stream& StreamScorer::Stream::operator=(Stream&&) noexcept = default;

void StreamScorer::Stream::Accept(std::span<const float> features, double now_s) {
  const State& stream = Alive(state_, kScorerStream);
  if (stream.finished) throw UsageError("frames for a stream that was finished: open another one");
  const ConstMatrixView frames = FramesOf(features, *stream.scorer->network);
  stream.scorer->pool.Accept(stream.id, frames, now_s);
}

void StreamScorer::Stream::Finish() {
  State& stream = Alive(state_, kScorerStream);
  stream.scorer->pool.Finish(stream.id);
  stream.finished = true;
}

std::vector<float> StreamScorer::Stream::Take() {
  const State& stream = Alive(state_, kScorerStream);
  std::vector<float> taken;
  stream.scorer->pool.Take(stream.id, [&](std::span<const float> scores, double) {
    taken.insert(taken.end(), scores.begin(), scores.end());
  });
  return taken;
}

}  // namespace antiphon
