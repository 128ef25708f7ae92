// What schedules of methods are made of: the setting that they play, what they measure, collectives, and the schedules
// that several methods share.
//
// Every Play… runs a CostWorld to its end and returns what it measured. Threads: plain functions. Errors: UsageError
// for plans that cannot be.
#pragma once

#include <string>
#include <vector>

#include "comm/cost_world.h"
#include "plan/cost_model.h"

namespace antiphon::plan {

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

/// synchronous.cc: in every step, all workers sum their gradients, layer by layer.
Played PlaySynchronous(const Setting& setting);

/// periodic.cc: workers learn alone for plan.sync_period steps, then exchange whole models.
Played PlayPeriodic(const Setting& setting);

/// asynchronous.cc: workers push changes to servers and pull the model, each at its own speed.
struct AsynchronousWay {
  int stripes = 1;             // ranks of a slave, each of which holds a stripe of every layer
  bool host_master = false;    // one memory holds the model, instead of plan.servers ranks or the workers
  bool judged = true;          // a coordinator is asked whether a push is fresh enough, if workers serve
  int steps = 1;               // minibatches between two exchanges
  std::vector<double> pieces;  // FLOP of a minibatch, one piece after the other; between two, requests are answered
};
Played PlayAsynchronous(const Setting& setting, const AsynchronousWay& way);
/// Each layer forwards, and again backwards.
std::vector<double> LayerByLayer(const Setting& setting);

/// Which ranks take part, under which tags (three from `tag` on), and how.
struct Group {
  int first = 0;
  int size = 1;
  int stride = 1;
  int tag = 0;
  int Rank(int i) const { return first + i * stride; }
};

enum class Exchange {
  kPieces,    // as Communicator::AllReduce: short sums by a tree, long ones in pieces, inside nodes first
  kTree,      // binomial, up and down
  kRing,      // reduce-scatter and all-gather round a ring
  kTwoStage,  // every rank sums a part and sends it to all: as GradientExchange
};
/// As the plan says, or else as `usual`.
Exchange ExchangeOf(const CostPlan& plan, Exchange usual);

/// Sum of `bytes` on every rank of the group; `me` is its member `index`. All but trees of more than kMostInMessages
/// ranks are not sent message by message: all wait for each other (in Broadcast for the root), then for the closed form
/// of the time.
comm::Task AllReduce(comm::CostProcess& me, Group group, int index, double bytes, Exchange exchange);
constexpr int kMostInMessages = 64;
/// Half of Exchange::kTwoStage: every rank gets its part of the sum from all, or gives its part to all.
enum class Stage { kReduce, kGather };
comm::Task OneStage(comm::CostProcess& me, Group group, int index, double bytes, Stage stage);
/// piece_sums.cc: what AllReduce and Broadcast do with long values on several nodes.
comm::Task SumInPieces(comm::CostProcess& me, Group group, int index, double bytes);
comm::Task SumInClosedForm(comm::CostProcess& me, Group group, int index, double bytes);
comm::Task BroadcastInPieces(comm::CostProcess& me, Group group, int index, double bytes);
comm::Task BroadcastInClosedForm(comm::CostProcess& me, Group group, int index, double bytes);
/// From the group's first rank to all, as Communicator::Broadcast.
comm::Task Broadcast(comm::CostProcess& me, Group group, int index, double bytes);

/// What a device needs per byte of fp32 gradient, for the plan's codec and additions, in an exchange in two stages,
/// which itself counts neither.
double CodecSecondsPerByte(const Setting& setting, int group_size);

/// Steps to play: more where there are few ranks or times vary.
int StepsToPlay(const Setting& setting);

}  // namespace antiphon::plan
