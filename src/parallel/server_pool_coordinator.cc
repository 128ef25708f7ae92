// The part of ServerPool that the coordinator plays: which pushes are fresh, who may read, when a round is over.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "parallel/server_pool.h"

namespace antiphon::parallel {

// With a bound of 0, whoever asks has read, and may push when all have.
void ServerPool::HandleJudge(const Letter& letter) {
  if (options_.staleness_bound != 0) return AnswerJudge(letter);
  held_.push_back(
      {letter.source, letter.kind, letter.number, letter.real, {letter.payload().begin(), letter.payload().end()}, {}});
  AnswerHeld();
}

void ServerPool::AnswerHeld() {
  if (held_.empty() || std::ssize(held_) < std::count(done_.begin(), done_.end(), false)) return;
  std::sort(held_.begin(), held_.end(), [](const Letter& a, const Letter& b) { return a.source < b.source; });
  for (const Letter& letter : std::exchange(held_, {})) AnswerJudge(letter);
}

// Who asked may have been lost while its letter was held, and told of while another one was answered.
void ServerPool::AnswerJudge(const Letter& letter) {
  if (gone_[static_cast<size_t>(letter.source)]) return;
  std::vector<int64_t> minibatches(letter.payload().size() / sizeof(int64_t));
  if (!minibatches.empty()) std::memcpy(minibatches.data(), letter.payload().data(), letter.payload().size());
  const bool apply = options_.max_staleness < 0 || pushes_ - letter.number <= options_.max_staleness;
  if (apply) {
    if (reports_pushes()) {
      promised_[static_cast<size_t>(letter.source)].push_back(minibatches);
    } else {
      ledger_.Confirm(letter.source, minibatches);
    }
    ++pushes_;
    ++judged_[static_cast<size_t>(letter.source)];
  } else {
    ledger_.GiveBack(letter.source, minibatches);
  }
  Send(letter.source, Kind::kVerdict, pushes_, apply ? 1 : 0, {});
}

// A server has applied a push of a worker; when all of them have, its minibatches are done.
void ServerPool::NoteApplied(size_t worker) {
  if (gone_[worker]) return;
  const int64_t clock = ++applied_[worker] / servers_;
  if (clock == clocks_[worker]) return;
  clocks_[worker] = clock;
  ledger_.Confirm(static_cast<int>(worker), promised_[worker].front());
  promised_[worker].pop_front();
}

void ServerPool::ReleaseReaders() {
  int64_t slowest = std::numeric_limits<int64_t>::max();
  for (size_t w = 0; w < clocks_.size(); ++w) {
    if (!done_[w]) slowest = std::min(slowest, clocks_[w]);
  }
  for (size_t i = 0; i < waiting_.size();) {
    const auto [worker, clock] = waiting_[i];
    if (clock - options_.staleness_bound > slowest) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    Send(worker, Kind::kRead, slowest, 0, {});
  }
}

void ServerPool::CloseIfDone() {
  if (std::find(done_.begin(), done_.end(), false) != done_.end()) return;
  // The shards' reports must be in, or they would count in the next round.
  if (over_ || (reports_pushes() && clocks_ != judged_)) return;
  over_ = true;
  for (int w = 0; w < comm_.world_size(); ++w) Send(w, Kind::kOver, given_back_, 0, {});
}

}  // namespace antiphon::parallel
