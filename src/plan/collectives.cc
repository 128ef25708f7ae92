#include <algorithm>

#include "comm/sum_plan.h"
#include "plan/schedules.h"

namespace antiphon::plan {

using comm::CostProcess;
using Handling = comm::Handling;
using comm::Task;

namespace {

// As Communicator sends short messages from the first rank.
Task BroadcastByTree(CostProcess& me, Group group, int index, double bytes) {
  int distance = 1;
  while (distance < group.size && index % (2 * distance) == 0) distance *= 2;
  if (index != 0) {
    co_await me.Receive(group.Rank(index - distance), group.tag);
    co_await me.Handle(Handling::kCopy, bytes);
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    if (index + distance < group.size) co_await me.Send(group.Rank(index + distance), group.tag, bytes);
  }
}

// As Communicator::AllReduce of few values: rank r adds what r + 1, r + 2, r + 4 … hold; then the way back.
Task Tree(CostProcess& me, Group group, int index, double bytes) {
  int distance = 1;
  for (; distance < group.size; distance *= 2) {
    if (index % (2 * distance) != 0) {
      co_await me.Send(group.Rank(index - distance), group.tag, bytes);
      break;
    }
    if (index + distance >= group.size) continue;
    co_await me.Receive(group.Rank(index + distance), group.tag);
    co_await me.Handle(Handling::kAdd, bytes);
  }
  co_await BroadcastByTree(me, {group.first, group.size, group.stride, group.tag + 1}, index, bytes);
}

// As comm/shared_sum.h: everybody lays its values down, adds up its part, and takes the whole.
Task Shared(CostProcess& me, Group group, int index, double bytes) {
  for (int meeting = 0; meeting < 2; ++meeting) co_await Tree(me, group, index, 0);
  co_await me.Handle(Handling::kCopy, 2 * bytes);
  co_await me.Handle(Handling::kAdd, bytes * (group.size - 1) / group.size);
}

Task Ring(CostProcess& me, Group group, int index, double bytes) {
  const int next = group.Rank((index + 1) % group.size);
  const int previous = group.Rank((index + group.size - 1) % group.size);
  for (int step = 0; step < 2 * (group.size - 1); ++step) {
    co_await me.Send(next, group.tag, bytes / group.size);
    co_await me.Receive(previous, group.tag);
    co_await me.Handle(step < group.size - 1 ? Handling::kAdd : Handling::kCopy, bytes / group.size);
  }
}

// Each begins with its neighbour, so that not all send to the same rank at once.
Task StageInMessages(CostProcess& me, Group group, int index, double bytes, int stage) {
  for (int i = 1; i < group.size; ++i) {
    co_await me.Send(group.Rank((index + i) % group.size), group.tag + stage, bytes / group.size);
  }
  for (int i = 1; i < group.size; ++i) co_await me.Receive(CostProcess::kAnySource, group.tag + stage);
}

Task TwoStage(CostProcess& me, Group group, int index, double bytes) {
  for (int stage = 0; stage < 2; ++stage) co_await StageInMessages(me, group, index, bytes, stage);
}

// Whether so many bytes of a group go in pieces.
bool InPieces(double bytes, const Group& group) {
  return comm::SumsInPieces(static_cast<size_t>(bytes / sizeof(float)), group.size);
}

// The slowest way between neighbours: inside a node, or from one to the next.
double NeighbourSeconds(CostProcess& me, const Group& group, double bytes) {
  comm::LinkModel& links = me.world().links();
  double slowest = 0;
  for (int i = 0; i + 1 < std::min(group.size, kMostInMessages); ++i) {
    slowest = std::max(slowest, links.IdleSeconds(group.Rank(i), group.Rank(i + 1), bytes));
  }
  return slowest + links.message_seconds() + me.world().hosts().SendSeconds(me.rank(), bytes);
}

// `stages` of two.
Task ClosedForm(CostProcess& me, Group group, int index, double bytes, bool ring, int stages = 2) {
  co_await Tree(me, group, index, 0);
  const double part = bytes / group.size;
  const double latency = NeighbourSeconds(me, group, 0);
  const double message = NeighbourSeconds(me, group, part);
  const double transfer = std::max(message - latency, me.world().links().message_seconds());
  const int rounds = group.size - 1;
  me.world().CountBytes(stages * rounds * part);
  const double handling =
      (ring ? rounds : 0) * (me.HandlingSeconds(Handling::kAdd, part) + me.HandlingSeconds(Handling::kCopy, part));
  co_await me.Sleep(stages * (ring ? rounds * message : latency + rounds * transfer) + handling);
}

}  // namespace

Task OneStage(CostProcess& me, Group group, int index, double bytes, Stage stage) {
  if (group.size > kMostInMessages) {
    co_await ClosedForm(me, group, index, bytes, false, 1);
  } else if (group.size > 1) {
    co_await StageInMessages(me, group, index, bytes, static_cast<int>(stage));
  }
}

Task Broadcast(CostProcess& me, Group group, int index, double bytes) {
  comm::LinkModel& links = me.world().links();
  bool one_node = true;
  for (int i = 1; i < group.size; ++i) one_node = one_node && links.Node(group.Rank(i)) == links.Node(group.first);
  if (one_node || !InPieces(bytes, group)) {
    co_await BroadcastByTree(me, group, index, bytes);
  } else if (group.size > kMostInMessages) {
    co_await BroadcastByTree(me, group, index, 0);
    co_await BroadcastInClosedForm(me, group, index, bytes);
  } else {
    co_await BroadcastInPieces(me, group, index, bytes);
  }
}

Exchange ExchangeOf(const CostPlan& plan, Exchange usual) {
  if (plan.exchange == "tree") return Exchange::kTree;
  if (plan.exchange == "pieces") return Exchange::kPieces;
  if (plan.exchange == "ring") return Exchange::kRing;
  return plan.exchange == "two-stage" ? Exchange::kTwoStage : usual;
}

Task AllReduce(CostProcess& me, Group group, int index, double bytes, Exchange exchange) {
  if (group.size > 1) {
    if (exchange == Exchange::kPieces && me.world().links().shares_memory()) {
      co_await Shared(me, group, index, bytes);
    } else if (exchange == Exchange::kTree || (exchange == Exchange::kPieces && !InPieces(bytes, group))) {
      co_await Tree(me, group, index, bytes);
    } else if (exchange == Exchange::kPieces && group.size > kMostInMessages) {
      co_await Tree(me, group, index, 0);
      co_await SumInClosedForm(me, group, index, bytes);
    } else if (exchange == Exchange::kPieces) {
      co_await SumInPieces(me, group, index, bytes);
    } else if (group.size > kMostInMessages) {
      co_await ClosedForm(me, group, index, bytes, exchange == Exchange::kRing);
    } else if (exchange == Exchange::kRing) {
      co_await Ring(me, group, index, bytes);
    } else {
      co_await TwoStage(me, group, index, bytes);
    }
  }
}

Played InLockstep(const comm::CostWorld& world, const std::vector<comm::CostProcess*>& devices, double begin,
                  double end, double round_frames, int rounds) {
  Played played;
  const int timed = rounds - rounds / 4;
  played.frames = round_frames * timed;
  played.seconds = end - begin;
  for (const comm::CostProcess* device : devices) {
    played.compute_seconds += device->compute_seconds();
    played.device_seconds += end;
  }
  played.bytes = world.bytes_sent();
  played.all_frames = round_frames * rounds;
  return played;
}

double CodecSecondsPerByte(const Setting& setting, int group_size) {
  const CostPlan& plan = setting.plan;
  comm::CodecSpeed speed = setting.cluster.host.codecs.Of(plan.codec.empty() ? "fp32" : plan.codec);
  if (speed.encode_gb_s == 0 && speed.decode_gb_s == 0) speed = {plan.codec_gb_s, plan.codec_gb_s};
  const auto seconds = [](double passes, double gb_s) { return gb_s > 0 ? 1e-9 * passes / gb_s : 0.0; };
  const double n = group_size;
  return seconds(1 + 1 / n, speed.encode_gb_s) + seconds(2, speed.decode_gb_s) +
         seconds(1 - 1 / n, setting.cluster.host.add_gb_s);
}

int StepsToPlay(const Setting& setting) {
  const bool varies = setting.cluster.host.jitter > 0;
  const int ranks = setting.plan.workers;
  if (ranks > 1024) return varies ? 8 : 4;
  if (ranks > 64) return varies ? 24 : 8;
  return varies ? 100 : 12;
}

}  // namespace antiphon::plan
