// Asynchronous SGD with a pool of servers (each holds a part of the model), host as master, asynchronous EASGD.
//
// Schedule of a worker: `accumulate` minibatches of work; then the gradient's parts go to their servers, the parts of
// the newest model are asked for and come back. With `overlap` the next work goes on meanwhile, with the model that is
// there. A server adds one part after the other (cluster.host.memory-gb-s: two reads and a write per value) and answers
// at once, lock-free, from what it has. Asynchronous EASGD is the same with sync_period steps between the exchanges.
// Servers: as many ranks of their own behind the workers as the plan says; with 0, the workers hold the parts (the
// first 32 of them), as this program does it. Host as master: every device reaches the host's memory over its own lane,
// so that the host counts as many servers as there are devices, which share its memory's bandwidth.
#include <algorithm>

#include "parallel/cost/schedules.h"

namespace antiphon::parallel::cost {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kPushTag = 0;
constexpr int kPullTag = 1;
constexpr int kModelTag = 2;
constexpr int kReadyTag = 3;
constexpr int kFreshTag = 4;
constexpr double kRequestBytes = 64;
constexpr int kMostParts = 32;  // on workers, so that messages stay countable

struct Schedule {
  const Setting& setting;
  int servers;
  int first_server;  // rank
  int exchanges;     // of each worker
  double part_bytes;
  double flops;          // between two exchanges
  double memory_share;   // servers behind one memory
  int64_t versions = 0;  // pushes that the first server added
  double staleness = 0;  // summed over pushes
  int64_t pushes = 0;
  std::vector<double> begin{};  // of each worker's steady state
  std::vector<double> end{};
};

Task Work(CostProcess& me, Schedule& s) {
  const bool overlap = s.setting.plan.overlap;
  const auto rank = static_cast<size_t>(me.rank());
  for (int i = 0; i < s.exchanges; ++i) {
    if (i == s.exchanges / 4) s.begin[rank] = me.now();
    co_await me.Compute(s.flops, s.setting.plan.minibatch);
    // Copies have a buffer of their own: the one before must have gone.
    if (overlap && i > 0) co_await me.Receive(me.rank(), kFreshTag);
    me.Signal(kReadyTag);
    if (!overlap) co_await me.Receive(me.rank(), kFreshTag);
  }
  if (overlap) co_await me.Receive(me.rank(), kFreshTag);
  s.end[rank] = me.now();
}

Task Copy(CostProcess& me, Schedule& s) {
  const CostPlan& plan = s.setting.plan;
  int64_t version = 0;
  for (int i = 0; i < s.exchanges; ++i) {
    co_await me.Receive(me.rank(), kReadyTag);
    for (int server = 0; server < s.servers; ++server) {
      co_await me.Send(s.first_server + server, kPushTag, s.part_bytes * plan.bits_per_value / 32);
    }
    for (int server = 0; server < s.servers; ++server) {
      co_await me.Send(s.first_server + server, kPullTag, kRequestBytes);
    }
    for (int server = 0; server < s.servers; ++server) co_await me.Receive(s.first_server + server, kModelTag);
    // What the others added since the model was read that this gradient belongs to; the own push is among them.
    if (i > 0) {
      s.staleness += static_cast<double>(s.versions - version - 1);
      ++s.pushes;
    }
    version = s.versions;
    me.Signal(kFreshTag);
  }
}

Task Add(CostProcess& me, Schedule& s) {
  const bool first = me.rank() == s.first_server;
  for (;;) {
    co_await me.Receive(CostProcess::kAnySource, kPushTag);
    if (first) ++s.versions;
    co_await me.Sleep(me.world().hosts().AccumulateSeconds(s.part_bytes) * s.memory_share);
  }
}

Task Answer(CostProcess& me, Schedule& s) {
  for (;;) {
    const int worker = co_await me.Receive(CostProcess::kAnySource, kPullTag);
    co_await me.Send(worker, kModelTag, s.part_bytes);
  }
}

}  // namespace

Played PlayAsynchronous(const Setting& setting) {
  const CostPlan& plan = setting.plan;
  const int steps = plan.method == "easgd-async" ? plan.sync_period : plan.accumulate;
  const bool host = plan.method == "host-master";
  const bool on_workers = !host && plan.servers == 0;
  const int servers = host ? plan.workers : on_workers ? std::min(plan.workers, kMostParts) : plan.servers;
  const int first_server = on_workers ? 0 : plan.workers;
  comm::CostWorld world(std::max(plan.workers, first_server + servers), setting.cluster);
  const double frames = static_cast<double>(plan.minibatch) * steps;
  Schedule schedule{setting,
                    servers,
                    first_server,
                    2 * StepsToPlay(setting),
                    4 * setting.network.weights() / servers,
                    setting.network.flops() * frames,
                    host ? static_cast<double>(servers) : 1.0};
  schedule.begin.assign(static_cast<size_t>(plan.workers), 0.0);
  schedule.end = schedule.begin;
  std::vector<CostProcess*> workers;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& worker = world.AddProcess(r);
    CostProcess& copies = world.AddProcess(r);
    world.Start(worker, Work(worker, schedule));
    world.Start(copies, Copy(copies, schedule));
    workers.push_back(&worker);
  }
  for (int r = first_server; r < first_server + servers; ++r) {
    CostProcess& adds = world.AddProcess(r);
    CostProcess& answers = world.AddProcess(r);
    world.Start(adds, Add(adds, schedule), true);
    world.Start(answers, Answer(answers, schedule), true);
  }
  world.Run();
  // Workers go at their own speed: rates add up.
  Played played;
  played.seconds = 1;
  for (size_t r = 0; r < workers.size(); ++r) {
    const int exchanges = schedule.exchanges - schedule.exchanges / 4;
    played.frames += frames * exchanges / (schedule.end[r] - schedule.begin[r]);
    played.compute_seconds += workers[r]->compute_seconds();
    played.device_seconds += schedule.end[r];
  }
  played.bytes = world.bytes_sent();
  played.all_frames = frames * schedule.exchanges * plan.workers;
  played.staleness = schedule.pushes > 0 ? schedule.staleness / static_cast<double>(schedule.pushes) : 0;
  return played;
}

}  // namespace antiphon::parallel::cost
