#include "comm/cost_world.h"

#include <algorithm>

#include "base/cancel.h"
#include "base/check.h"

namespace antiphon::comm {
namespace {

constexpr int64_t kEventsBetweenLooks = 4096;  // whether somebody asked to stop

}  // namespace

void CostProcess::WakeAt(double seconds, std::coroutine_handle<> h) {
  resume_ = h;
  world_.Push(*this, seconds);
}

CostProcess::Wait CostProcess::Compute(double flops, double frames) {
  const double seconds = world_.hosts_.ComputeSeconds(rank_, flops, frames);
  compute_seconds_ += seconds;
  return Occupy(seconds);
}

CostProcess::Wait CostProcess::Occupy(double seconds) {
  double& free = world_.device_free_[static_cast<size_t>(rank_)];
  free = std::max(free, now_) + seconds;
  return {*this, free};
}

double CostProcess::HandlingSeconds(Handling what, double bytes, std::string_view codec) const {
  return world_.hosts_.HandlingSeconds(rank_, what, bytes, codec);
}

CostProcess::Wait CostProcess::Send(int destination, int tag, double bytes) {
  const double end = now_ + world_.links_.message_seconds() + world_.hosts_.SendSeconds(rank_, bytes);
  world_.Deliver(rank_, destination, tag, world_.links_.Deliver(rank_, destination, bytes, end));
  if (destination != rank_) world_.bytes_sent_ += bytes;
  ++world_.messages_;
  return {*this, end};
}

void CostProcess::Signal(int tag) { world_.Deliver(rank_, rank_, tag, now_); }

void CostProcess::Arrival::await_suspend(std::coroutine_handle<> h) {
  CostWorld::Box& box = me.world_.BoxOf(me.rank_, tag);
  CHECK(box.waiting == nullptr) << "two processes of rank " << me.rank_ << " wait for tag " << tag;
  box.waiting = &me;
  box.source = source;
  me.resume_ = h;
  ++me.ticket_;
  if (const auto found = CostWorld::Find(box, source); found != box.letters.end()) {
    me.world_.Push(me, std::max(me.now_, found->arrival));
  }
}

int CostProcess::Arrival::await_resume() const {
  CostWorld::Box& box = me.world_.BoxOf(me.rank_, tag);
  box.waiting = nullptr;
  const auto found = CostWorld::Find(box, source);
  const int sender = found->source;
  box.letters.erase(found);
  return sender;
}

CostWorld::CostWorld(int world_size, const ClusterOptions& cluster)
    : hosts_(cluster.host, world_size),
      links_(cluster.links, world_size),
      device_free_(static_cast<size_t>(world_size), 0.0) {}

CostProcess& CostWorld::AddProcess(int rank) {
  CHECK(rank >= 0 && rank < world_size()) << rank;
  return processes_.emplace_back(*this, rank);
}

void CostWorld::Start(CostProcess& process, Task task, bool server) {
  process.WakeAt(0, task.handle());
  programs_.push_back({std::move(task), server});
}

void CostWorld::Run() {
  const auto unfinished = [&] {
    return std::count_if(programs_.begin(), programs_.end(),
                         [](const Program& p) { return !p.server && !p.task.done(); });
  };
  for (int64_t event_number = 0; !events_.empty(); ++event_number) {
    if (event_number % kEventsBetweenLooks == 0) ThrowIfCancelled("simulating");
    const Event event = events_.top();
    events_.pop();
    CostProcess& process = *event.process;
    if (event.ticket != process.ticket_) continue;
    process.now_ = std::max(process.now_, event.seconds);
    process.resume_.resume();
  }
  for (const Program& program : programs_) program.task.RethrowError();
  if (const auto left = unfinished(); left > 0) {
    Throw<InternalError>("{} simulated processes wait for messages that nobody sends", left);
  }
}

CostWorld::Box& CostWorld::BoxOf(int rank, int tag) {
  return boxes_[static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(tag)];
}

std::deque<CostWorld::Letter>::iterator CostWorld::Find(Box& box, int source) {
  return std::find_if(box.letters.begin(), box.letters.end(), [&](const Letter& letter) {
    return source == CostProcess::kAnySource || letter.source == source;
  });
}

void CostWorld::Deliver(int source, int destination, int tag, double arrival) {
  Box& box = BoxOf(destination, tag);
  box.letters.insert(std::upper_bound(box.letters.begin(), box.letters.end(), arrival,
                                      [](double time, const Letter& other) { return time < other.arrival; }),
                     {source, arrival});
  if (box.waiting == nullptr || (box.source != CostProcess::kAnySource && box.source != source)) return;
  // The earliest letter counts; a wake-up for a later one becomes void.
  Push(*box.waiting, std::max(box.waiting->now_, Find(box, box.source)->arrival));
}

void CostWorld::Push(CostProcess& process, double seconds) {
  events_.push({seconds, issued_++, &process, ++process.ticket_});
}

}  // namespace antiphon::comm
