#include "comm/long_sum.h"

#include <cstring>
#include <utility>

namespace antiphon::comm {
namespace {

// What sums and broadcasts share: who this rank is, and how a finished piece reaches everybody.
class PieceRouter {
 public:
  PieceRouter(SumCarrier& carrier, const SumPlan& plan)
      : carrier_(carrier), plan_(plan), me_(carrier.position()), node_(plan.node_of(me_)) {}

 protected:
  bool Collects(int column) const { return plan_.collector(node_, column) == me_; }
  /// f(owner, column) for all pieces of the other nodes, beginning with the next one's: not all go to the same at once.
  template <class F>
  void ForOthers(const F& f) const {
    for (int i = 1; i < plan_.num_nodes(); ++i) {
      const int owner = (node_ + i) % plan_.num_nodes();
      for (int column = 0; column < plan_.columns(); ++column) f(owner, column);
    }
  }
  void SendToNodes(int column, std::span<const std::byte> bytes, int left_out = -1) {
    for (int i = 1; i < plan_.num_nodes(); ++i) {
      const int node = (node_ + i) % plan_.num_nodes();
      if (node != left_out) carrier_.Send(plan_.collector(node, column), bytes);
    }
  }
  void SendInside(std::span<const std::byte> bytes) {
    for (const int r : plan_.ranks(node_)) {
      if (r != me_) carrier_.Send(r, bytes);
    }
  }
  void ReceiveInto(int from, std::span<std::byte> bytes) {
    const std::vector<std::byte> message = carrier_.Receive(from, bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), message.data(), bytes.size());
    carrier_.Handled(Handling::kCopy, bytes.size());
  }
  /// A piece that another node's collector gives to this one, for all of this node.
  void PassOn(int from, std::span<std::byte> bytes) {
    ReceiveInto(from, bytes);
    SendInside(bytes);
  }

  SumCarrier& carrier_;
  const SumPlan& plan_;
  const int me_;
  const int node_;
};

template <class T>
void AddValues(const T* from, size_t size, T* to) {
#pragma omp simd
  for (size_t i = 0; i < size; ++i) to[i] += from[i];
}

template <class T>
class PieceSum : PieceRouter {
 public:
  PieceSum(SumCarrier& carrier, const SumPlan& plan, std::span<T> values)
      : PieceRouter(carrier, plan), values_(values), at_(plan.num_ranks()), messages_(plan.num_ranks()) {}

  // Owners may begin as soon as the others have sent: own pieces come last.
  void Run() {
    ForOthers([&](int owner, int column) { SendUp(owner, column); });
    ForOwn([&](int column) { SendUp(node_, column); });
    ForOthers([&](int owner, int column) {
      if (!Collects(column)) return;
      Collect(owner, column);
      SendBlocks(plan_.collector(owner, column), Piece(owner, column).size());
    });
    ForOwn([&](int column) {
      if (!Collects(column)) return;
      Collect(node_, column);
      Complete(column);
    });
    ForOthers([&](int owner, int column) {
      if (Collects(column)) PassOn(plan_.collector(owner, column), Bytes(owner, column));
    });
    ForOwn([&](int column) { TakeInside(node_, column); });
    ForOthers([&](int owner, int column) { TakeInside(owner, column); });
  }

 private:
  template <class F>
  void ForOwn(const F& f) const {
    for (int column = 0; column < plan_.columns(); ++column) f(column);
  }
  std::span<T> Piece(int owner, int column) const {
    const auto [first, size] = plan_.Piece(owner, column, values_.size());
    return values_.subspan(first, size);
  }
  std::span<std::byte> Bytes(int owner, int column) const { return std::as_writable_bytes(Piece(owner, column)); }
  T*& At(int position) { return at_[static_cast<size_t>(position)]; }

  void SendUp(int owner, int column) {
    if (!Collects(column)) carrier_.Send(plan_.collector(node_, column), Bytes(owner, column));
  }
  void TakeInside(int owner, int column) {
    if (!Collects(column)) ReceiveInto(plan_.collector(node_, column), Bytes(owner, column));
  }

  // Sums grow in this rank's values and in the messages themselves.
  void Collect(int owner, int column) {
    const std::span<T> mine = Piece(owner, column);
    for (const int r : plan_.ranks(node_)) {
      At(r) = r == me_ ? mine.data() : Received(r, r, mine.size());
    }
    Add(plan_.inside(node_), mine.size());
  }
  // Kept as the message of position `at`.
  T* Received(int from, int at, size_t size) {
    std::vector<std::byte>& message = messages_[static_cast<size_t>(at)];
    message = carrier_.Receive(from, size * sizeof(T));
    return reinterpret_cast<T*>(message.data());
  }
  void Add(const std::vector<std::pair<int, int>>& additions, size_t size) {
    for (const auto& [to, from] : additions) AddValues(At(from), size, At(to));
    carrier_.Handled(Handling::kAdd, additions.size() * size * sizeof(T));
  }

  void SendBlocks(int to, size_t size) {
    const std::vector<int>& blocks = plan_.blocks(node_);
    if (blocks.size() == 1 && blocks[0] != me_) {
      return carrier_.SendAway(to, messages_[static_cast<size_t>(blocks[0])]);
    }
    if (blocks.size() == 1) return carrier_.Send(to, std::as_bytes(std::span(At(me_), size)));
    std::vector<std::byte> all;
    all.reserve(blocks.size() * size * sizeof(T));
    for (const int block : blocks) {
      const auto bytes = std::as_bytes(std::span(At(block), size));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    carrier_.SendAway(to, all);
  }

  // Of a piece of this node, whose own blocks have been added.
  void Complete(int column) {
    const std::span<T> mine = Piece(node_, column);
    for (int i = 1; i < plan_.num_nodes(); ++i) {
      const int node = (node_ + i) % plan_.num_nodes();
      const std::vector<int>& blocks = plan_.blocks(node);
      T* sums = Received(plan_.collector(node, column), blocks[0], blocks.size() * mine.size());
      for (const int block : blocks) {
        At(block) = sums;
        sums += mine.size();
      }
    }
    Add(plan_.across(), mine.size());
    if (At(0) != mine.data()) {
      std::memcpy(mine.data(), At(0), mine.size_bytes());
      carrier_.Handled(Handling::kCopy, mine.size_bytes());
    }
    SendToNodes(column, std::as_bytes(mine));
    SendInside(std::as_bytes(mine));
  }

  std::span<T> values_;
  std::vector<T*> at_;                            // by position: where its sum grows
  std::vector<std::vector<std::byte>> messages_;  // by position
};

class PieceBroadcast : PieceRouter {
 public:
  PieceBroadcast(SumCarrier& carrier, const SumPlan& plan, int root, std::span<std::byte> bytes)
      : PieceRouter(carrier, plan), root_(root), home_(plan.node_of(root)), bytes_(bytes) {}

  void Run() {
    if (me_ == root_) return Give();
    if (node_ == home_) return ReceiveInto(root_, bytes_);
    for (int column = 0; column < plan_.columns(); ++column) {
      if (!Collects(column)) continue;
      const std::span<std::byte> mine = Piece(node_, column);
      ReceiveInto(root_, mine);
      SendToNodes(column, mine, home_);
      SendInside(mine);
    }
    ForOthers([&](int owner, int column) {
      if (owner != home_ && Collects(column)) PassOn(plan_.collector(owner, column), Piece(owner, column));
    });
    for (int column = 0; column < plan_.columns(); ++column) TakeInside(node_, column);
    ForOthers([&](int owner, int column) {
      if (owner != home_) TakeInside(owner, column);
    });
  }

 private:
  void Give() {
    ForOthers([&](int owner, int column) { carrier_.Send(plan_.collector(owner, column), Piece(owner, column)); });
    SendInside(bytes_);
  }
  void TakeInside(int owner, int column) {
    if (!Collects(column)) ReceiveInto(plan_.collector(node_, column), Piece(owner, column));
  }
  // The root's node owns none.
  std::span<std::byte> Piece(int owner, int column) const {
    const auto columns = static_cast<size_t>(plan_.columns());
    const size_t pieces = static_cast<size_t>(plan_.num_nodes() - 1) * columns;
    const size_t k = static_cast<size_t>(owner < home_ ? owner : owner - 1) * columns + static_cast<size_t>(column);
    const size_t first = bytes_.size() * k / pieces;
    return bytes_.subspan(first, bytes_.size() * (k + 1) / pieces - first);
  }

  const int root_;
  const int home_;
  std::span<std::byte> bytes_;
};

}  // namespace

void SumInPieces(SumCarrier& carrier, const SumPlan& plan, std::span<float> values) {
  PieceSum<float>(carrier, plan, values).Run();
}
void SumInPieces(SumCarrier& carrier, const SumPlan& plan, std::span<double> values) {
  PieceSum<double>(carrier, plan, values).Run();
}
void BroadcastInPieces(SumCarrier& carrier, const SumPlan& plan, int root, std::span<std::byte> bytes) {
  PieceBroadcast(carrier, plan, root, bytes).Run();
}

}  // namespace antiphon::comm
