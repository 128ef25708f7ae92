// The schedules behind SimulateCost, one per family of methods, and the collectives that they share.
//
// Internal to src/parallel/cost. Every Play… runs a CostWorld to its end and returns what it measured.
#pragma once

#include "comm/cost_world.h"
#include "parallel/cost/cost_model.h"

namespace antiphon::parallel::cost {

struct Setting {
  const CostNetwork& network;
  const CostPlan& plan;
  const comm::ClusterOptions& cluster;
};

/// What a schedule measured in its steady state.
struct Played {
  double frames = 0;
  double seconds = 0;
  double compute_seconds = 0;  // of all devices, from the beginning
  double device_seconds = 0;   // devices × time, from the beginning
  double bytes = 0;            // from the beginning
  double all_frames = 0;       // from the beginning
  double staleness = 0;
  std::vector<std::string> split;
};

/// Of lockstep methods: `rounds` rounds of `round_frames` frames, of which the first quarter is warm-up, which ends at
/// `begin`; all end at `end`.
Played InLockstep(const comm::CostWorld& world, const std::vector<comm::CostProcess*>& devices, double begin,
                  double end, double round_frames, int rounds);

/// synchronous.cc, periodic.cc, asynchronous.cc, pipeline.cc, model_parallel.cc, hessian_free.cc
Played PlaySynchronous(const Setting& setting);
Played PlayPeriodic(const Setting& setting);
Played PlayAsynchronous(const Setting& setting);
Played PlayPipeline(const Setting& setting);
Played PlayModelParallel(const Setting& setting);
Played PlayHessianFree(const Setting& setting);

/// Which ranks take part, under which tags (three from `tag` on), and how.
struct Group {
  int first = 0;
  int size = 1;
  int stride = 1;
  int tag = 0;
  int Rank(int i) const { return first + i * stride; }
};

enum class Exchange {
  kTree,      // binomial, up and down: as Communicator::AllReduce
  kRing,      // reduce-scatter and all-gather round a ring
  kTwoStage,  // every rank sums a part and sends it to all: as GradientExchange
};
/// As the plan says, or else as `usual`.
Exchange ExchangeOf(const CostPlan& plan, Exchange usual);

/// Sum of `bytes` on every rank of the group; `me` is its member `index`. Rings and two-stage exchanges of more than
/// kMostInMessages ranks are not sent message by message: all wait for each other, then for the closed form of the
/// time.
comm::Task AllReduce(comm::CostProcess& me, Group group, int index, double bytes, Exchange exchange);
constexpr int kMostInMessages = 64;
/// From the group's first rank to all.
comm::Task Broadcast(comm::CostProcess& me, Group group, int index, double bytes);

/// What a device needs per byte of fp32 gradient, for the plan's codec and additions, in an exchange in two stages,
/// which itself counts neither.
double CodecSecondsPerByte(const Setting& setting, int group_size);

/// Steps to play: more where there are few ranks or times vary.
int StepsToPlay(const Setting& setting);

}  // namespace antiphon::parallel::cost
