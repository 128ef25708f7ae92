#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "comm/long_sum.h"

namespace antiphon::comm {
namespace {

constexpr int kReduceTag = Communicator::kFirstInternalTag;
constexpr int kBroadcastTag = Communicator::kFirstInternalTag + 1;
constexpr int kGatherTag = Communicator::kFirstInternalTag + 2;
constexpr int kScatterTag = Communicator::kFirstInternalTag + 3;
constexpr int kPieceTag = Communicator::kFirstInternalTag + 4;

template <class T>
void AddTo(std::span<T> sum, const std::vector<std::byte>& bytes) {
  const T* other = reinterpret_cast<const T*>(bytes.data());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

SumPlan PlanOf(const Communicator& comm) {
  std::vector<int> nodes;
  for (int r = 0; r < comm.world_size(); ++r) nodes.push_back(comm.Node(r));
  return SumPlan(nodes);
}

}  // namespace

class Communicator::Pieces : public SumCarrier {
 public:
  explicit Pieces(Communicator& comm) : comm_(comm) {}
  int position() const override { return comm_.rank(); }
  void Send(int to, std::span<const std::byte> bytes) override { comm_.Send(to, kPieceTag, bytes); }
  void SendAway(int to, std::vector<std::byte>& bytes) override { comm_.SendAway(to, kPieceTag, bytes); }
  std::vector<std::byte> Receive(int from, size_t size) override {
    return std::move(comm_.ReceiveSized(from, kPieceTag, size).bytes);
  }
  void Handled(Handling what, size_t bytes) override { comm_.Handled(what, bytes); }

 private:
  Communicator& comm_;
};

std::string Communicator::Describe(std::string_view operation) const {
  return fmt::format("rank {} of {}, {}, step {}", rank(), world_size(), operation, step_);
}

size_t Communicator::Part(int r, size_t size) const {
  return size * static_cast<size_t>(r) / static_cast<size_t>(world_size());
}

Message Communicator::ReceiveSized(int source, int tag, size_t size) {
  Message message = Receive(source, tag);
  if (message.bytes.size() != size) {
    Throw<InputError>("{}: got {} bytes from rank {}, expected {}: the ranks do not run the same experiment",
                      Describe("collective operation"), message.bytes.size(), message.source, size);
  }
  return message;
}

void Communicator::ReceiveInto(int source, int tag, std::span<std::byte> bytes) {
  const Message message = ReceiveSized(source, tag, bytes.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), message.bytes.data(), bytes.size());
  Handled(Handling::kCopy, bytes.size());
}

// Leaves the sum at rank 0. Whoever is absorbed at distance d sends and is done, as in a binomial tree.
template <class T>
void Communicator::TreeReduce(std::span<T> values) {
  for (int distance = 1; distance < world_size(); distance *= 2) {
    if (rank() % (2 * distance) != 0) {
      Send(rank() - distance, kReduceTag, std::as_bytes(values));
      return;
    }
    if (rank() + distance >= world_size()) continue;
    AddTo(values, ReceiveSized(rank() + distance, kReduceTag, values.size_bytes()).bytes);
    Handled(Handling::kAdd, values.size_bytes());
  }
}

void Communicator::Barrier() {
  double nothing = 0;
  AllReduce(std::span<double>(&nothing, 1));
}

template <class T>
void Communicator::SumOverRanks(std::span<T> values) {
  if (SumsInPieces(values.size(), world_size())) {
    Pieces carrier(*this);
    return SumInPieces(carrier, PlanOf(*this), values);
  }
  TreeReduce(values);
  BroadcastByTree(0, std::as_writable_bytes(values));
}

void Communicator::AllReduce(std::span<float> values) {
  if (!SumShared(values)) SumOverRanks(values);
}

void Communicator::AllReduce(std::span<double> values) { SumOverRanks(values); }

void Communicator::Reduce(int root, std::span<float> values) {
  TreeReduce(values);
  if (root == 0) return;
  if (rank() == 0) Send(root, kReduceTag, std::as_bytes(values));
  if (rank() == root) ReceiveInto(0, kReduceTag, std::as_writable_bytes(values));
}

// Each part is summed at its owner in the order of the tree, so that the bits are those of AllReduce.
void Communicator::ReduceScatter(std::span<float> values) {
  const size_t n = static_cast<size_t>(world_size());
  for (int r = 0; r < world_size(); ++r) {
    if (r == rank()) continue;
    const size_t first = Part(r, values.size());
    Send(r, kScatterTag, std::as_bytes(values.subspan(first, Part(r + 1, values.size()) - first)));
  }
  const size_t first = Part(rank(), values.size());
  const std::span<float> mine = values.subspan(first, Part(rank() + 1, values.size()) - first);
  // Sums grow in the messages themselves.
  std::vector<Message> messages(n);
  std::vector<std::span<float>> parts(n, mine);
  for (int r = 0; r < world_size(); ++r) {
    if (r == rank()) continue;
    Message& message = messages[static_cast<size_t>(r)];
    message = ReceiveSized(r, kScatterTag, mine.size_bytes());
    parts[static_cast<size_t>(r)] = {reinterpret_cast<float*>(message.bytes.data()), mine.size()};
  }
  for (size_t distance = 1; distance < n; distance *= 2) {
    for (size_t r = 0; r + distance < n; r += 2 * distance) {
      for (size_t i = 0; i < mine.size(); ++i) parts[r][i] += parts[r + distance][i];
    }
  }
  Handled(Handling::kAdd, (n - 1) * mine.size_bytes());
  if (rank() == 0) return;
  std::copy(parts[0].begin(), parts[0].end(), mine.begin());
  Handled(Handling::kCopy, mine.size_bytes());
}

void Communicator::AllGatherParts(std::span<float> values) {
  const auto part = [&](int r) {
    const size_t first = Part(r, values.size());
    return values.subspan(first, Part(r + 1, values.size()) - first);
  };
  for (int r = 0; r < world_size(); ++r) {
    if (r != rank()) Send(r, kGatherTag, std::as_bytes(part(rank())));
  }
  for (int r = 0; r < world_size(); ++r) {
    if (r != rank()) ReceiveInto(r, kGatherTag, std::as_writable_bytes(part(r)));
  }
}

void Communicator::Broadcast(int root, std::span<std::byte> bytes) {
  CHECK(root >= 0 && root < world_size()) << root;
  if (SumsInPieces(bytes.size() / sizeof(float), world_size())) {
    const SumPlan plan = PlanOf(*this);
    Pieces carrier(*this);
    if (plan.num_nodes() > 1) return BroadcastInPieces(carrier, plan, root, bytes);
  }
  BroadcastByTree(root, bytes);
}

void Communicator::BroadcastByTree(int root, std::span<std::byte> bytes) {
  // Binomial tree over ranks relative to the root: each receives from the one without its lowest set bit.
  const int relative = (rank() - root + world_size()) % world_size();
  int distance = 1;
  while (distance < world_size() && relative % (2 * distance) == 0) distance *= 2;
  if (relative != 0) ReceiveInto((relative - distance + root) % world_size(), kBroadcastTag, bytes);
  for (distance /= 2; distance > 0; distance /= 2) {
    if (relative + distance < world_size()) Send((relative + distance + root) % world_size(), kBroadcastTag, bytes);
  }
}

void Communicator::Together(std::span<float> values, const std::function<void()>& body) {
  if (survivors() == nullptr) return Together(body);
  const std::vector<float> before(values.begin(), values.end());
  Together([&] {
    std::copy(before.begin(), before.end(), values.begin());
    body();
  });
}

std::vector<std::byte> Communicator::AllGather(std::span<const std::byte> mine) {
  for (int r = 0; r < world_size(); ++r) {
    if (r != rank()) Send(r, kGatherTag, mine);
  }
  std::vector<std::byte> all(mine.size() * static_cast<size_t>(world_size()));
  for (int r = 0; r < world_size(); ++r) {
    const std::span<std::byte> place = std::span(all).subspan(mine.size() * static_cast<size_t>(r), mine.size());
    if (r != rank()) {
      ReceiveInto(r, kGatherTag, place);
    } else if (!mine.empty()) {
      std::memcpy(place.data(), mine.data(), place.size());
    }
  }
  return all;
}

}  // namespace antiphon::comm
