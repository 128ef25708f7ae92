#include "infer/stream_pool.h"

#include <algorithm>
#include <cmath>

namespace antiphon::infer {

StreamPool::StreamPool(std::shared_ptr<const NnetModel> model, const StreamPoolOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_->group() != 1 || model_->lazy() != nullptr) {
    throw UsageError(
        "streams are scored together frame by frame: frame-skip, lazy and several heads do not go with that");
  }
  if (model_->options().block_frames < options.batch) {
    Throw<UsageError>("batches of {} frames need block-frames of as many or more, found {}", options.batch,
                      model_->options().block_frames);
  }
}

int StreamPool::Open() {
  const std::lock_guard lock(mutex_);
  if (std::ssize(streams_) >= options_.max_streams) {
    Throw<OverloadError>("{} streams are open, and no more can be served: try again later, or raise max-streams",
                         streams_.size());
  }
  streams_.emplace(next_id_, std::make_shared<Stream>(model_->NewWindow()));
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
    for (const float x : frames.Row(r)) {
      if (!std::isfinite(x)) Throw<InputError>("frame {} of a piece has a value that is not a finite number", r);
    }
  }
  const std::lock_guard lock(mutex_);
  const auto target = Find(stream);
  target->window.Accept(frames);
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

std::vector<StreamPool::Pick> StreamPool::PickBatch(double now, PlanMemory& memory) {
  std::vector<std::shared_ptr<Stream>> waiting;
  for (const auto& [id, stream] : streams_) {
    if (stream->in_flight == 0 && stream->next < stream->window.num_centres()) waiting.push_back(stream);
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
    const int count = std::min(SkipFor(*stream, now), stream->window.num_centres() - stream->next);
    stream->window.Splice(stream->next, memory.input().Row(std::ssize(picks)));
    picks.push_back({stream, stream->next, {stream->arrivals.begin(), stream->arrivals.begin() + count}});
    stream->arrivals.erase(stream->arrivals.begin(), stream->arrivals.begin() + count);
    stream->next += count;
    stream->window.ForgetBelow(stream->next);
    if (stream->next < stream->window.num_centres()) {
      waiting.push_back(stream);
      std::push_heap(waiting.begin(), waiting.end(), later);
    }
  }
  for (const Pick& pick : picks) ++pick.stream->in_flight;
  return picks;
}

int StreamPool::RunBatch(double now) {
  const auto memory = model_->BorrowMemory();
  std::vector<Pick> picks;
  {
    const std::lock_guard lock(mutex_);
    picks = PickBatch(now, *memory);
  }
  if (picks.empty()) return 0;
  Matrix scores(std::ssize(picks), model_->num_pdfs());
  model_->plan().Run(static_cast<int>(picks.size()), *memory, scores);
  model_->FinishScores(scores);
  int handed_out = 0;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < picks.size(); ++i) {
    const auto row = std::as_const(scores).Row(static_cast<int64_t>(i));
    const auto shared = std::make_shared<const std::vector<float>>(row.begin(), row.end());
    Stream& stream = *picks[i].stream;
    for (const double arrival : picks[i].arrivals) stream.ready.push_back({arrival, shared});
    --stream.in_flight;
    ++stream.stats.evaluations;
    stream.stats.frames += std::ssize(picks[i].arrivals);
    handed_out += static_cast<int>(picks[i].arrivals.size());
  }
  return handed_out;
}

int StreamPool::Take(int stream, const std::function<void(std::span<const float>, double)>& use) {
  std::deque<Scored> taken;
  {
    const std::lock_guard lock(mutex_);
    std::swap(taken, Find(stream)->ready);
  }
  for (const Scored& scored : taken) use(*scored.scores, scored.arrival);
  return static_cast<int>(taken.size());
}

StreamStats StreamPool::stats(int stream) const {
  const std::lock_guard lock(mutex_);
  return Find(stream)->stats;
}

size_t StreamPool::bytes(int stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = Find(stream);
  size_t bytes = sizeof(Stream) + found->window.bytes() + found->arrivals.size() * sizeof(double);
  for (const Scored& scored : found->ready) bytes += sizeof(Scored) + scored.scores->size() * sizeof(float);
  return bytes;
}

}  // namespace antiphon::infer
