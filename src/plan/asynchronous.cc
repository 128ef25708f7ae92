// Asynchronous SGD with a pool of servers (each holds a part of the model), host as master, asynchronous EASGD, and
// slaves that are groups of ranks (asgd-groups).
//
// Schedule of a worker: `accumulate` minibatches of work, layer by layer; then it asks the coordinator (the first
// server) whether its push is fresh enough, the change's parts go to their servers, the parts of the newest model are
// asked for and come back, and the work goes on; with `overlap-copies` (the program's `overlap`) the next work goes on
// meanwhile, with the model that came before. Asynchronous EASGD is the same with sync_period steps between exchanges
// and nobody asked. Servers: with 0, the workers hold the parts (the first 32 of them), as this program does it:
// requests wait until the worker's layer under way is through, adding (cluster.host.add-gb-s) and handing over the part
// (send-gb-s) take the worker's own time. Else as many ranks of their own behind the workers as the plan says; these
// add one part after the other (cluster.host.memory-gb-s: two reads and a write per value) and answer at once from what
// they have. Host as master: every device reaches the host's memory over its own lane, so that the host counts as many
// servers as there are devices, which share its memory's bandwidth; where the devices are those of several nodes, rank
// 0 serves the whole model as a worker. Slaves of several ranks: each rank holds a stripe of every layer and exchanges
// it with the ranks of the other slaves that hold the same one.
#include <algorithm>

#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

using comm::CostProcess;
using comm::Task;

constexpr int kPushTag = 0;
constexpr int kPullTag = 1;
constexpr int kModelTag = 2;
constexpr int kChangeReadyTag = 3;
constexpr int kFreshTag = 4;
constexpr int kJudgeTag = 5;
constexpr int kVerdictTag = 6;
constexpr double kRequestBytes = 64;
constexpr int kMostParts = 32;  // on workers, so that messages stay countable

struct PushSchedule {
  const Setting& setting;
  int stripes = 1;  // ranks of a slave
  int servers = 1;  // of each stripe
  int first_server = 0;
  bool on_workers = true;
  bool host_master = false;
  bool judged = true;
  bool overlap = false;
  int exchanges = 0;  // of each worker
  int steps = 1;      // between two
  double stripe_bytes = 0;
  double part_bytes = 0;
  std::vector<double> pieces{};  // FLOP of a step, one after the other
  double memory_share = 1;       // servers behind one memory
  int64_t versions = 0;          // pushes that the first server added
  double staleness = 0;          // summed over pushes
  int64_t pushes = 0;
  std::vector<double> begin{};  // of each worker's steady state
  std::vector<double> end{};

  int Server(int rank, int i) const { return first_server + rank % stripes + i * stripes; }
};

Task PushAndPull(CostProcess& me, PushSchedule& s, int64_t& version) {
  const CostPlan& plan = s.setting.plan;
  const int coordinator = s.Server(me.rank(), 0);
  if (s.judged) {
    co_await me.Send(coordinator, kJudgeTag, kRequestBytes);
    co_await me.Receive(coordinator, kVerdictTag);
  }
  if (!s.host_master) co_await me.Handle(comm::Handling::kAdd, s.stripe_bytes);  // the change
  for (int i = 0; i < s.servers; ++i) {
    co_await me.Send(s.Server(me.rank(), i), kPushTag, s.part_bytes * BitsPerValue(plan) / 32);
  }
  for (int i = 0; i < s.servers; ++i) co_await me.Send(s.Server(me.rank(), i), kPullTag, kRequestBytes);
  for (int i = 0; i < s.servers; ++i) co_await me.Receive(s.Server(me.rank(), i), kModelTag);
  // To its place, and kept for the next change.
  const double own_part = s.on_workers ? s.part_bytes : 0;
  if (!s.host_master) co_await me.Handle(comm::Handling::kCopy, s.stripe_bytes + own_part);
  // What the others added since the model was read that this gradient belongs to; the own push is among them.
  if (version >= 0) {
    s.staleness += static_cast<double>(s.versions - version - 1);
    ++s.pushes;
  }
  version = s.versions;
}

Task PushWork(CostProcess& me, PushSchedule& s) {
  const auto rank = static_cast<size_t>(me.rank());
  int64_t version = -1;
  for (int i = 0; i < s.exchanges; ++i) {
    if (i == s.exchanges / 4) s.begin[rank] = me.now();
    for (int step = 0; step < s.steps; ++step) {
      for (const double flops : s.pieces) co_await me.Compute(flops, s.setting.plan.minibatch);
    }
    if (s.overlap) {
      // Copies have a buffer of their own: the one before must have gone.
      if (i > 0) co_await me.Receive(me.rank(), kFreshTag);
      me.Signal(kChangeReadyTag);
    } else {
      co_await PushAndPull(me, s, version);
    }
  }
  if (s.overlap) co_await me.Receive(me.rank(), kFreshTag);
  s.end[rank] = me.now();
}

Task Copy(CostProcess& me, PushSchedule& s) {
  // The work under way is on what was read before; with the worker's own last push.
  int64_t used = -1;
  int64_t read = -1;
  for (int i = 0; i < s.exchanges; ++i) {
    co_await me.Receive(me.rank(), kChangeReadyTag);
    int64_t version = used;
    co_await PushAndPull(me, s, version);
    used = read < 0 ? -1 : read + 1;
    read = version;
    me.Signal(kFreshTag);
  }
}

Task Add(CostProcess& me, PushSchedule& s) {
  const bool first = me.rank() == s.first_server;
  for (;;) {
    co_await me.Receive(CostProcess::kAnySource, kPushTag);
    if (s.on_workers) co_await me.Handle(comm::Handling::kAdd, s.part_bytes);
    co_await me.Sleep(me.world().hosts().AccumulateSeconds(s.part_bytes) * s.memory_share);
    if (first) ++s.versions;
  }
}

// `until_free`: the rank is a worker too, and answers between two of its layers.
Task Answer(CostProcess& me, bool until_free, int request_tag, int answer_tag, double bytes) {
  for (;;) {
    const int worker = co_await me.Receive(CostProcess::kAnySource, request_tag);
    if (until_free) co_await me.Occupy(me.world().hosts().SendSeconds(me.rank(), bytes));
    co_await me.Send(worker, answer_tag, bytes);
  }
}

bool HasSeveralNodes(const Setting& setting) {
  const int ranks_per_node = setting.cluster.links.ranks_per_node;
  return ranks_per_node > 0 && setting.plan.workers > ranks_per_node;
}

PushSchedule MakeSchedule(const Setting& setting, const AsynchronousWay& way) {
  const CostPlan& plan = setting.plan;
  PushSchedule s{setting};
  s.stripes = way.stripes;
  s.host_master = way.host_master && !HasSeveralNodes(setting);
  const bool at_rank_0 = way.host_master && !s.host_master;
  s.on_workers = at_rank_0 || (!way.host_master && plan.servers == 0);
  if (s.host_master) {
    s.servers = plan.workers;
  } else if (at_rank_0) {
    s.servers = 1;
  } else if (s.on_workers) {
    s.servers = std::min(plan.workers / s.stripes, kMostParts);
  } else {
    s.servers = plan.servers;
  }
  s.first_server = s.on_workers ? 0 : plan.workers;
  s.judged = !s.host_master && way.judged;
  s.overlap = plan.overlap_copies;
  s.steps = way.steps;
  s.exchanges = 2 * StepsToPlay(setting);
  s.stripe_bytes = 4 * setting.network.weights() / s.stripes;
  s.part_bytes = s.stripe_bytes / s.servers;
  s.pieces = way.pieces;
  s.memory_share = s.host_master ? static_cast<double>(s.servers) : 1.0;
  s.begin.assign(static_cast<size_t>(plan.workers), 0.0);
  s.end = s.begin;
  return s;
}

void StartServers(comm::CostWorld& world, PushSchedule& s) {
  const auto start = [&](int rank, auto&& program) {
    CostProcess& process = world.AddProcess(rank);
    world.Start(process, program(process), true);
  };
  for (int rank = s.first_server; rank < s.first_server + s.servers * s.stripes; ++rank) {
    start(rank, [&](CostProcess& me) { return Add(me, s); });
    start(rank, [&](CostProcess& me) { return Answer(me, s.on_workers, kPullTag, kModelTag, s.part_bytes); });
    if (!s.judged || rank - s.first_server >= s.stripes) continue;
    start(rank, [&](CostProcess& me) { return Answer(me, s.on_workers, kJudgeTag, kVerdictTag, kRequestBytes); });
  }
}

}  // namespace

std::vector<double> LayerByLayer(const Setting& setting) {
  const double frames = setting.plan.minibatch;
  const std::vector<CostLayer>& layers = setting.network.layers;
  std::vector<double> pieces;
  for (const CostLayer& layer : layers) pieces.push_back(layer.forward_flops * frames);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) pieces.push_back(layer->backward_flops * frames);
  return pieces;
}

Played PlayAsynchronous(const Setting& setting, const AsynchronousWay& way) {
  const CostPlan& plan = setting.plan;
  PushSchedule schedule = MakeSchedule(setting, way);
  comm::ClusterOptions cluster = setting.cluster;
  if (schedule.host_master) cluster.links.ranks_per_node = 0;
  comm::CostWorld world(std::max(plan.workers, schedule.first_server + schedule.servers), cluster);
  std::vector<CostProcess*> workers;
  for (int r = 0; r < plan.workers; ++r) {
    CostProcess& worker = world.AddProcess(r);
    world.Start(worker, PushWork(worker, schedule));
    workers.push_back(&worker);
    if (!schedule.overlap) continue;
    CostProcess& copies = world.AddProcess(r);
    world.Start(copies, Copy(copies, schedule));
  }
  StartServers(world, schedule);
  world.Run();
  // Workers go at their own speed: rates add up. The ranks of a slave share its minibatches.
  const double frames = static_cast<double>(plan.minibatch) * schedule.steps / schedule.stripes;
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

}  // namespace antiphon::plan
