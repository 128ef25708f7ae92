#include "serve/hearing.h"

#include <exception>
#include <utility>

#include "serve/clock.h"

namespace antiphon::serve {

Hearing::Hearing(Scheduler& scheduler, Metrics& metrics, const HearingSettings& settings, Open open, Reply reply)
    : scheduler_(scheduler), metrics_(metrics), settings_(settings), open_(std::move(open)), reply_(std::move(reply)) {}

void Hearing::Hear(std::vector<int16_t> samples) { Add({.pcm = std::move(samples)}); }
void Hearing::Hear(std::vector<float> samples) { Add({.samples = std::move(samples)}); }
void Hearing::End() { Add({.end = true}); }

void Hearing::Add(Piece piece) {
  piece.arrival_s = NowSeconds();
  const double due_s = piece.arrival_s + settings_.slack_s;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    queued_samples_ += static_cast<int64_t>(piece.size());
    ++queued_pieces_;
    first = pieces_.empty();
    pieces_.push_back(std::move(piece));
  }
  if (first) scheduler_.Submit(shared_from_this(), due_s);
}

void Hearing::Cancel() {
  cancel_.Cancel();
  const std::lock_guard lock(mutex_);
  over_ = true;
}

std::optional<Hearing::Piece> Hearing::Next() {
  const std::lock_guard lock(mutex_);
  if (over_ || pieces_.empty()) return std::nullopt;
  // An empty piece holds the place, so that nobody submits the task a second time.
  return std::exchange(pieces_.front(), Piece{});
}

void Hearing::SubmitNext() {
  double due_s = 0;
  {
    const std::lock_guard lock(mutex_);
    pieces_.pop_front();
    if (over_ || pieces_.empty()) return;
    due_s = pieces_.front().arrival_s + settings_.slack_s;
  }
  scheduler_.Submit(shared_from_this(), due_s);
}

std::vector<StreamEvent> Hearing::Compute(const Piece& piece) {
  const double begin_s = NowSeconds();
  if (!stream_) stream_.emplace(open_(cancel_));
  std::vector<StreamEvent> events;
  if (piece.end) {
    events = stream_->End();
  } else if (!piece.samples.empty()) {
    events = stream_->Accept(std::span<const float>(piece.samples));
  } else {
    events = stream_->Accept(std::span<const int16_t>(piece.pcm));
  }
  const double now_s = NowSeconds();
  metrics_.Add("antiphon_audio_seconds_total", "", static_cast<double>(piece.size()) / settings_.sample_rate_hz);
  metrics_.Add("antiphon_compute_seconds_total", "", now_s - begin_s);
  metrics_.Observe(piece.end ? "antiphon_final_seconds" : "antiphon_reply_seconds", now_s - piece.arrival_s);
  return events;
}

void Hearing::Step() {
  const std::optional<Piece> piece = Next();
  if (!piece) return;
  Heard heard;
  try {
    heard.events = Compute(*piece);
    heard.end = piece->end;
    if (heard.end) heard.audio_remarks = stream_->AudioRemarks();
  } catch (const std::exception& e) {
    heard.error = KindOf(e);
    heard.message = e.what();
  }
  const bool over = heard.end || heard.error.has_value();
  if (over) {
    // The stream goes on this thread: its memory is given back where it was taken.
    stream_.reset();
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  // Before the reply: who waits for room may look as soon as that comes.
  queued_samples_ -= static_cast<int64_t>(piece->size());
  --queued_pieces_;
  if (!cancel_.cancelled()) reply_(std::move(heard));
  if (!over) SubmitNext();
}

}  // namespace antiphon::serve
