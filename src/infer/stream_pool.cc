#include "infer/stream_pool.h"

#include <algorithm>
#include <numeric>

#include "base/compute_threads.h"
#include "infer/measure.h"
#include "math/finite.h"

namespace antiphon::infer {
namespace {

RowProfiles ProfilesIfAny(const std::vector<const BoundProfile*>& bound) {
  const bool any = std::any_of(bound.begin(), bound.end(), [](const auto* p) { return p != nullptr; });
  return any ? RowProfiles(bound) : RowProfiles();
}

}  // namespace

FailedStreamError::FailedStreamError(const std::exception& cause)
    : Error(fmt::format("the stream cannot go on, as a batch with frames of it failed ({}); open another one",
                        cause.what())),
      kind_(KindOf(cause)) {}

int MeasureCapacity(const NnetModel& model, const StreamPoolOptions& options, int workers, double frames_per_second,
                    double share, double seconds) {
  SetComputeThreads(1);
  const PlanSpeed speed = MeasurePlan(model.plan(), std::min(options.batch, model.options().block_frames), seconds);
  const double frames = speed.frames_per_second * model.group() * workers;
  return std::max(1, static_cast<int>(share * frames / frames_per_second));
}

StreamPool::StreamPool(std::shared_ptr<const NnetModel> model, const StreamPoolOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_->options().block_frames < options.batch) {
    Throw<UsageError>("batches of {} frames need block-frames of as many or more, found {}", options.batch,
                      model_->options().block_frames);
  }
}

int StreamPool::Open(std::shared_ptr<const BoundProfile> profile) {
  const std::lock_guard lock(mutex_);
  if (std::ssize(streams_) >= options_.max_streams) {
    Throw<OverloadError>("{} streams are open, and no more can be served: try again later, or raise max-streams",
                         streams_.size());
  }
  streams_.emplace(next_id_, std::make_shared<Stream>(*model_, std::move(profile)));
  return next_id_++;
}

void StreamPool::Close(int stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

int StreamPool::num_streams() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(streams_.size());
}

std::shared_ptr<StreamPool::Stream> StreamPool::Find(int stream) const {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end()) << "no stream " << stream;
  return found->second;
}

void StreamPool::Accept(int stream, ConstMatrixView frames, double now) {
  for (int64_t r = 0; r < frames.rows(); ++r) {
    if (!AllFinite(frames.Row(r))) {
      Throw<InputError>("frame {} of a piece has a value that is not a finite number", r);
    }
  }
  const std::lock_guard lock(mutex_);
  const auto target = Find(stream);
  if (target->failure) throw FailedStreamError(*target->failure);
  AcceptFrames(frames, target->profile.get(), target->window);
  target->arrivals.insert(target->arrivals.end(), static_cast<size_t>(frames.rows()), now);
}

void StreamPool::Finish(int stream) {
  const std::lock_guard lock(mutex_);
  Find(stream)->window.Finish();
}

int StreamPool::SkipFor(const Stream& stream, double now) const {
  const double late = now - (stream.arrivals.front() + options_.deadline_s);
  return late <= 0 ? 1 : (late <= options_.deadline_s ? 2 : 4);
}

int StreamPool::EvaluationsReady(const Stream& stream) const {
  // Those whose frames are all there, so that each frame's arrival is known.
  const int ready = model_->EvaluationsReady(stream.window);
  return stream.window.finished() ? ready : std::min(ready, stream.window.num_frames() / model_->group());
}

std::vector<StreamPool::Pick> StreamPool::PickBatch(double now, PlanMemory& memory) {
  std::vector<std::shared_ptr<Stream>> waiting;
  for (const auto& [id, stream] : streams_) {
    if (!stream->failure && stream->in_flight == 0 && stream->next < EvaluationsReady(*stream))
      waiting.push_back(stream);
  }
  std::vector<Pick> picks;
  const auto later = [](const std::shared_ptr<Stream>& a, const std::shared_ptr<Stream>& b) {
    return a->arrivals.front() > b->arrivals.front();
  };
  std::make_heap(waiting.begin(), waiting.end(), later);
  while (!waiting.empty() && std::ssize(picks) < options_.batch) {
    std::pop_heap(waiting.begin(), waiting.end(), later);
    const auto stream = waiting.back();
    waiting.pop_back();
    const int evaluations = std::min(SkipFor(*stream, now), EvaluationsReady(*stream) - stream->next);
    const auto frames =
        std::min<std::ptrdiff_t>(std::ptrdiff_t{evaluations} * model_->group(), std::ssize(stream->arrivals));
    stream->window.Splice(model_->Centre(stream->next), memory.input().Row(std::ssize(picks)));
    picks.push_back({stream, {stream->arrivals.begin(), stream->arrivals.begin() + frames}});
    stream->arrivals.erase(stream->arrivals.begin(), stream->arrivals.begin() + frames);
    stream->next += evaluations;
    stream->window.ForgetBelow(model_->Centre(stream->next));
    if (stream->next < EvaluationsReady(*stream)) {
      waiting.push_back(stream);
      std::push_heap(waiting.begin(), waiting.end(), later);
    }
  }
  for (const Pick& pick : picks) ++pick.stream->in_flight;
  return picks;
}

// The stream that waits longest gives all that it has, then the next, until the batch is full.
StreamPool::SequenceBatch StreamPool::PickSequences(PlanMemory& memory) {
  std::vector<std::shared_ptr<Stream>> waiting;
  for (const auto& [id, stream] : streams_) {
    if (!stream->failure && stream->in_flight == 0 && stream->feed->Waiting(stream->window) > 0)
      waiting.push_back(stream);
  }
  const auto deadline = [](const std::shared_ptr<Stream>& s) { return s->arrivals.empty() ? 0 : s->arrivals.front(); };
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](const auto& a, const auto& b) { return deadline(a) < deadline(b); });
  SequenceBatch batch;
  int used = 0;
  for (const auto& stream : waiting) {
    if (used == options_.batch) break;
    batch.rows.push_back(stream->feed->Take(stream->window, true, memory.input().Rows(used, options_.batch - used)));
    used += batch.rows.back();
    batch.streams.push_back(stream);
  }
  for (const auto& stream : batch.streams) ++stream->in_flight;
  return batch;
}

int StreamPool::RunSequences(PlanMemory& memory) {
  SequenceBatch batch;
  {
    const std::lock_guard lock(mutex_);
    batch = PickSequences(memory);
  }
  if (batch.streams.empty()) return 0;
  return OrFail(batch.streams, [&] { return RunSequences(batch, memory); });
}

int StreamPool::RunSequences(SequenceBatch& batch, PlanMemory& memory) {
  std::vector<PlanState*> states;
  std::vector<const BoundProfile*> bound;
  for (const auto& stream : batch.streams) {
    states.push_back(&stream->feed->state());
    bound.push_back(stream->profile.get());
  }
  Matrix scores(options_.batch, model_->num_pdfs());
  model_->plan().RunStreams(batch.rows, states, memory, scores, ProfilesIfAny(bound));
  model_->FinishScores(scores.view().Rows(0, std::accumulate(batch.rows.begin(), batch.rows.end(), 0)));
  const std::lock_guard lock(mutex_);
  std::vector<Pick> picks;
  for (size_t s = 0; s < batch.streams.size(); ++s) {
    const auto& stream = batch.streams[s];
    for (int n = 0; n < batch.rows[s]; ++n) {
      const auto count = std::min<std::ptrdiff_t>(model_->group(), std::ssize(stream->arrivals));
      picks.push_back({stream, {stream->arrivals.begin(), stream->arrivals.begin() + count}});
      stream->arrivals.erase(stream->arrivals.begin(), stream->arrivals.begin() + count);
    }
    --stream->in_flight;
  }
  for (const Pick& pick : picks) ++pick.stream->in_flight;
  HandOut(picks, scores);
  // Frames that only filled states count too: the caller goes on while something is done.
  return std::max(1, static_cast<int>(picks.size()));
}

// Each head's scores to its frames; the last head's to those of evaluations that were skipped.
void StreamPool::HandOut(const Pick& pick, ConstMatrixView heads) const {
  int64_t given = -1;
  std::shared_ptr<const std::vector<float>> shared;
  const auto step = static_cast<size_t>(model_->subsampling());
  for (size_t i = 0; i < pick.arrivals.size(); i += step) {
    const int64_t head = std::min(static_cast<int64_t>(i) / model_->frames_per_output(), heads.rows() - 1);
    if (head != given) {
      shared = std::make_shared<const std::vector<float>>(heads.Row(head).begin(), heads.Row(head).end());
    }
    given = head;
    pick.stream->ready.push_back({pick.arrivals[i], shared, nullptr, 0});
  }
}

int StreamPool::RunBatch(double now) {
  const auto memory = model_->BorrowMemory();
  if (model_->plan().sequential()) return RunSequences(*memory);
  std::vector<Pick> picks;
  std::vector<std::shared_ptr<Stream>> streams;
  streams.reserve(static_cast<size_t>(options_.batch));  // nothing may fail between picking and OrFail
  {
    const std::lock_guard lock(mutex_);
    picks = PickBatch(now, *memory);
  }
  if (picks.empty()) return 0;
  for (const Pick& pick : picks) streams.push_back(pick.stream);
  return OrFail(streams, [&] { return RunPicks(picks, *memory); });
}

int StreamPool::OrFail(std::span<const std::shared_ptr<Stream>> streams, const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::exception& e) {
    const FailedStreamError failure(e);
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams) {
      stream->failure = failure;
      stream->in_flight = 0;  // no other batch holds frames of it
    }
    return static_cast<int>(streams.size());
  }
}

int StreamPool::RunPicks(std::span<const Pick> picks, PlanMemory& memory) {
  std::vector<const BoundProfile*> bound;
  for (const Pick& pick : picks) bound.push_back(pick.stream->profile.get());
  const RowProfiles profiles = ProfilesIfAny(bound);
  const int count = static_cast<int>(picks.size());
  if (model_->lazy() != nullptr) return HandOut(picks, model_->plan().RunHidden(count, memory, profiles));
  const int64_t heads = model_->model().frames_per_forward;
  Matrix scores(count * heads, model_->num_pdfs());
  model_->plan().Run(count, memory, {scores.data(), count, heads * model_->num_pdfs()}, profiles);
  model_->FinishScores(scores);
  const std::lock_guard lock(mutex_);
  return HandOut(picks, scores);
}

// With the lock held; the scores of pick i begin at row i · heads.
int StreamPool::HandOut(std::span<const Pick> picks, const Matrix& scores) {
  const int64_t heads = model_->model().frames_per_forward;
  int handed_out = 0;
  for (size_t i = 0; i < picks.size(); ++i) {
    Stream& stream = *picks[i].stream;
    HandOut(picks[i], ConstMatrixView(scores).Rows(static_cast<int64_t>(i) * heads, heads));
    --stream.in_flight;
    ++stream.stats.evaluations;
    stream.stats.frames += model_->SearchFrames(static_cast<int>(picks[i].arrivals.size()));
    handed_out += static_cast<int>(picks[i].arrivals.size());
  }
  return handed_out;
}

// Of a lazy model. A stream's frames of this batch become one block, which counts its outputs when it goes.
int StreamPool::HandOut(std::span<const Pick> picks, const Rows& hidden) {
  std::map<Stream*, std::vector<int>> rows;
  for (size_t i = 0; i < picks.size(); ++i) rows[picks[i].stream.get()].push_back(static_cast<int>(i));
  std::map<Stream*, std::shared_ptr<LazyBlock>> blocks;
  for (const auto& [stream, its_rows] : rows) {
    std::unique_ptr<LazyBlock> block = std::make_unique<LazyBlock>(*model_->lazy());
    block->Begin(hidden, its_rows);
    blocks[stream] = {block.release(), [model = model_](const LazyBlock* gone) {
                        model->CountOutputs(gone->computed(), gone->total());
                        delete gone;
                      }};
  }
  const std::lock_guard lock(mutex_);
  int handed_out = 0;
  for (const auto& [stream, its_rows] : rows) {
    for (size_t r = 0; r < its_rows.size(); ++r) {
      const std::vector<double>& arrivals = picks[static_cast<size_t>(its_rows[r])].arrivals;
      for (const double arrival : arrivals) {
        stream->ready.push_back({arrival, nullptr, blocks[stream], static_cast<int>(r)});
      }
      --stream->in_flight;
      ++stream->stats.evaluations;
      stream->stats.frames += std::ssize(arrivals);
      handed_out += static_cast<int>(arrivals.size());
    }
  }
  return handed_out;
}

std::deque<ScoredFrame> StreamPool::TakeFrames(int stream) {
  std::deque<ScoredFrame> taken;
  const std::lock_guard lock(mutex_);
  const auto from = Find(stream);
  if (from->ready.empty() && from->failure) throw FailedStreamError(*from->failure);
  std::swap(taken, from->ready);
  return taken;
}

int StreamPool::Take(int stream, const std::function<void(std::span<const float>, double)>& use) {
  if (model_->lazy() != nullptr) throw UsageError("a lazy model's scores are asked for one by one: take its frames");
  const std::deque<ScoredFrame> taken = TakeFrames(stream);
  for (const ScoredFrame& scored : taken) use(*scored.scores, scored.arrival);
  return static_cast<int>(taken.size());
}

bool StreamPool::IsLastFrame(int stream, int frame) const {
  const std::lock_guard lock(mutex_);
  const FrameWindow& window = Find(stream)->window;
  return window.finished() && frame == model_->SearchFrames(window.num_frames()) - 1;
}

StreamStats StreamPool::stats(int stream) const {
  const std::lock_guard lock(mutex_);
  return Find(stream)->stats;
}

size_t StreamPool::bytes(int stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = Find(stream);
  size_t bytes = sizeof(Stream) + found->window.bytes() + (found->feed ? found->feed->bytes() : 0) +
                 found->arrivals.size() * sizeof(double);
  const LazyBlock* counted = nullptr;
  for (const ScoredFrame& frame : found->ready) {
    bytes += sizeof(ScoredFrame) + (frame.scores ? frame.scores->size() * sizeof(float) : 0);
    if (frame.block.get() != counted && frame.block) bytes += frame.block->bytes();
    counted = frame.block.get();
  }
  return bytes;
}

}  // namespace antiphon::infer
