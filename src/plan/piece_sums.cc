// Long sums and broadcasts as comm/long_sum.h sends them: every message, or their closed form.
#include <algorithm>

#include "comm/sum_plan.h"
#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

using comm::CostProcess;
using comm::SumPlan;
using comm::Task;
using Handling = comm::Handling;

// What a member of the group does.
struct PieceMember {
  PieceMember(CostProcess& process, const Group& its_group, int its_index, double bytes)
      : me(process), group(its_group), index(its_index), plan(NodesOf(process, its_group)), node(plan.node_of(index)) {
    for (int column = 0; column < plan.columns(); ++column) {
      if (plan.collector(node, column) == index) collected.push_back(column);
    }
    piece = bytes / (plan.num_nodes() * plan.columns());
  }
  static std::vector<int> NodesOf(CostProcess& process, const Group& group) {
    std::vector<int> nodes;
    for (int i = 0; i < group.size; ++i) nodes.push_back(process.world().links().Node(group.Rank(i)));
    return nodes;
  }
  int other(int i) const { return (node + i) % plan.num_nodes(); }
  CostProcess::Wait Send(int to, double bytes) const { return me.Send(group.Rank(to), group.tag, bytes); }
  CostProcess::Arrival Receive(int from) const { return me.Receive(group.Rank(from), group.tag); }
  double blocks(int its_node) const { return static_cast<double>(plan.blocks(its_node).size()); }

  CostProcess& me;
  const Group group;
  const int index;
  const SumPlan plan;
  const int node;
  std::vector<int> collected;  // columns
  double piece;                // bytes
};

Task SendInside(PieceMember& m, double bytes) {
  for (const int r : m.plan.ranks(m.node)) {
    if (r != m.index) co_await m.Send(r, bytes);
  }
}

Task Collect(PieceMember& m) {
  for (const int r : m.plan.ranks(m.node)) {
    if (r != m.index) co_await m.Receive(r);
  }
  co_await m.me.Handle(Handling::kAdd, static_cast<double>(m.plan.inside(m.node).size()) * m.piece);
}

Task Complete(PieceMember& m, int column) {
  for (int i = 1; i < m.plan.num_nodes(); ++i) co_await m.Receive(m.plan.collector(m.other(i), column));
  co_await m.me.Handle(Handling::kAdd, static_cast<double>(m.plan.across().size()) * m.piece);
  if (m.index != 0) co_await m.me.Handle(Handling::kCopy, m.piece);
  for (int i = 1; i < m.plan.num_nodes(); ++i) co_await m.Send(m.plan.collector(m.other(i), column), m.piece);
  co_await SendInside(m, m.piece);
}

// Pieces that the others of the node collect.
Task TakeInside(PieceMember& m, int pieces_per_column) {
  for (int column = 0; column < m.plan.columns(); ++column) {
    const int collector = m.plan.collector(m.node, column);
    for (int i = 0; i < pieces_per_column && collector != m.index; ++i) {
      co_await m.Receive(collector);
      co_await m.me.Handle(Handling::kCopy, m.piece);
    }
  }
}

// Seconds of a rank whose bytes go out beside those of all others: over a card that its node shares, or inside a node.
double AcrossSeconds(const PieceMember& m, double bytes_of_node) {
  const int there = m.plan.ranks(m.node == 0 ? m.plan.num_nodes() - 1 : 0).front();
  return m.me.world().links().IdleSeconds(m.me.rank(), m.group.Rank(there), bytes_of_node);
}

double InsideSeconds(const PieceMember& m, double bytes_of_rank) {
  const std::vector<int>& ranks = m.plan.ranks(m.node);
  if (ranks.size() < 2) return 0;
  return m.me.world().links().IdleSeconds(m.group.Rank(ranks[0]), m.group.Rank(ranks[1]), bytes_of_rank);
}

}  // namespace

Task SumInPieces(CostProcess& me, Group group, int index, double bytes) {
  PieceMember m(me, group, index, bytes);
  const int nodes = m.plan.num_nodes();
  for (int i = 1; i <= nodes; ++i) {
    for (int column = 0; column < m.plan.columns(); ++column) {
      const int collector = m.plan.collector(m.node, column);
      if (collector != index) co_await m.Send(collector, m.piece);
    }
  }
  for (int i = 1; i < nodes; ++i) {
    for (const int column : m.collected) {
      co_await Collect(m);
      co_await m.Send(m.plan.collector(m.other(i), column), m.blocks(m.node) * m.piece);
    }
  }
  for (const int column : m.collected) {
    co_await Collect(m);
    co_await Complete(m, column);
  }
  for (int i = 1; i < nodes; ++i) {
    for (const int column : m.collected) {
      co_await m.Receive(m.plan.collector(m.other(i), column));
      co_await m.me.Handle(Handling::kCopy, m.piece);
      co_await SendInside(m, m.piece);
    }
  }
  co_await TakeInside(m, nodes);
}

Task SumInClosedForm(CostProcess& me, Group group, int index, double bytes) {
  PieceMember m(me, group, index, bytes);
  const double nodes = m.plan.num_nodes();
  const double ranks = static_cast<double>(m.plan.ranks(m.node).size());
  const double columns = static_cast<double>(m.collected.size());
  const double sums = m.blocks(m.node);
  const double inside = m.piece * nodes * (ranks - 1) * columns;  // of this rank, up or down
  const double across = m.piece * (nodes - 1) * columns;          // the same to other nodes, of one sum
  const double messages =
      nodes * (m.plan.columns() - columns) + (nodes - 1) * columns * 2 + nodes * columns * (ranks - 1);
  const double sent = 2 * inside + (1 + sums) * across;
  me.world().CountBytes(sent);
  const double copied = bytes - m.piece * (index == 0 ? columns : 0);
  const double added =
      m.piece * columns *
      (nodes * static_cast<double>(m.plan.inside(m.node).size()) + static_cast<double>(m.plan.across().size()));
  double seconds = messages * me.world().links().message_seconds() + me.world().hosts().SendSeconds(me.rank(), sent) +
                   me.HandlingSeconds(Handling::kAdd, added) + me.HandlingSeconds(Handling::kCopy, copied) +
                   2 * InsideSeconds(m, inside);
  if (nodes > 1) seconds += AcrossSeconds(m, sums * across * ranks) + AcrossSeconds(m, across * ranks);
  co_await me.Sleep(seconds);
}

// The group's first rank is the root.
Task BroadcastInPieces(CostProcess& me, Group group, int index, double bytes) {
  PieceMember m(me, group, index, bytes);
  const int nodes = m.plan.num_nodes();
  m.piece = bytes / ((nodes - 1) * m.plan.columns());
  if (index == 0) {
    for (int i = 1; i < nodes; ++i) {
      for (int column = 0; column < m.plan.columns(); ++column) {
        co_await m.Send(m.plan.collector(m.other(i), column), m.piece);
      }
    }
    co_await SendInside(m, bytes);
    co_return;
  }
  if (m.node == 0) {
    co_await m.Receive(0);
    co_await me.Handle(Handling::kCopy, bytes);
    co_return;
  }
  for (const int column : m.collected) {
    co_await m.Receive(0);
    co_await me.Handle(Handling::kCopy, m.piece);
    for (int i = 1; i < nodes; ++i) {
      if (m.other(i) != 0) co_await m.Send(m.plan.collector(m.other(i), column), m.piece);
    }
    co_await SendInside(m, m.piece);
  }
  for (int i = 1; i < nodes; ++i) {
    for (const int column : m.collected) {
      if (m.other(i) == 0) continue;
      co_await m.Receive(m.plan.collector(m.other(i), column));
      co_await me.Handle(Handling::kCopy, m.piece);
      co_await SendInside(m, m.piece);
    }
  }
  co_await TakeInside(m, nodes - 1);
}

}  // namespace antiphon::plan
