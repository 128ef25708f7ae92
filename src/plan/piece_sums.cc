// Long sums and broadcasts as comm/long_sum.h sends them: every message, or their closed form.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "comm/sum_plan.h"
#include "plan/schedules.h"

namespace antiphon::plan {
namespace {

using comm::CostProcess;
using comm::SumPlan;
using comm::Task;
using Handling = comm::Handling;

// All members of a group ask for the same one, one after the other.
std::shared_ptr<const SumPlan> PlanOf(std::vector<int> nodes) {
  static thread_local std::vector<int> of;
  static thread_local std::shared_ptr<const SumPlan> last;
  if (!last || of != nodes) {
    last = std::make_shared<const SumPlan>(nodes);
    of = std::move(nodes);
  }
  return last;
}

// What a member of the group does.
struct PieceMember {
  PieceMember(CostProcess& process, const Group& its_group, int its_index, double bytes)
      : me(process),
        group(its_group),
        index(its_index),
        shared_plan(PlanOf(NodesOf(process, its_group))),
        plan(*shared_plan),
        node(plan.node_of(index)) {
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
  const std::shared_ptr<const SumPlan> shared_plan;
  const SumPlan& plan;
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

// As many messages as the above, but none is sent: what is known of the last pieces' way. The root's card gives the
// values to the network once. The node that is served last gives its pieces to all nodes but the root's, beginning when
// it has the first of them.
Task BroadcastInClosedForm(CostProcess& me, Group group, int index, double bytes) {
  PieceMember m(me, group, index, bytes);
  comm::LinkModel& links = me.world().links();
  const double nodes = m.plan.num_nodes();
  const double all_columns = m.plan.columns();
  const double others = static_cast<double>(m.plan.ranks(m.node).size()) - 1;  // of the own node
  const double piece = bytes / ((nodes - 1) * all_columns);
  const auto columns = static_cast<double>(m.collected.size());
  double messages = 0, across = 0, inside = 0;  // sent
  if (index == 0) {
    messages = (nodes - 1) * all_columns + others;
    across = bytes;
    inside = others * bytes;
  } else if (m.node != 0) {
    messages = columns * (nodes - 2 + others * (nodes - 1));
    across = columns * (nodes - 2) * piece;
    inside = columns * others * (nodes - 1) * piece;
  }
  me.world().CountBytes(across + inside);
  double seconds = messages * links.message_seconds() + me.world().hosts().SendSeconds(me.rank(), across + inside);
  if (index != 0) seconds += me.HandlingSeconds(Handling::kCopy, bytes);
  if (m.node == 0 && index != 0) seconds += InsideSeconds(m, bytes);
  if (m.node != 0) {
    const double waits = links.IdleSeconds(group.Rank(0), me.rank(), bytes - (all_columns - 1) * piece);
    const double passes_on = nodes > 2 ? AcrossSeconds(m, all_columns * (nodes - 2) * piece) : 0;
    seconds += std::max(waits + passes_on, InsideSeconds(m, inside));
  }
  co_await me.Sleep(seconds);
}

}  // namespace antiphon::plan
