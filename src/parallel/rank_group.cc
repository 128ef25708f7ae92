#include "parallel/rank_group.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/long_sum.h"

namespace antiphon::parallel {
namespace {

constexpr int kReduce = 0;
constexpr int kBroadcast = 1;
constexpr int kExchange = 2;
constexpr int kPieces = 3;

class Listening {
 public:
  explicit Listening(comm::Communicator& comm) : comm_(comm) { comm_.SetListening(true); }
  Listening(const Listening&) = delete;
  ~Listening() { comm_.SetListening(false); }

 private:
  comm::Communicator& comm_;
};

}  // namespace

std::vector<int> RanksFrom(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

class RankGroup::Pieces : public comm::SumCarrier {
 public:
  explicit Pieces(RankGroup& group) : group_(group) {}
  int position() const override { return group_.index_; }
  void Send(int to, std::span<const std::byte> bytes) override { group_.Send(to, group_.tag_ + kPieces, bytes); }
  void SendAway(int to, std::vector<std::byte>& bytes) override { Send(to, bytes); }
  std::vector<std::byte> Receive(int from, size_t size) override {
    return std::move(group_.ReceiveSized(from, group_.tag_ + kPieces, size).bytes);
  }
  void Handled(comm::Handling what, size_t bytes) override { group_.comm_.Handled(what, bytes); }

 private:
  RankGroup& group_;
};

RankGroup::RankGroup(comm::Communicator& comm, std::vector<int> ranks, int id)
    : comm_(comm), ranks_(std::move(ranks)), tag_(kFirstGroupTag + 4 * id) {
  const auto mine = std::find(ranks_.begin(), ranks_.end(), comm.rank());
  CHECK(mine != ranks_.end()) << "rank " << comm.rank() << " is not in its group";
  index_ = static_cast<int>(mine - ranks_.begin());
}

void RankGroup::Send(int index, int tag, std::span<const std::byte> bytes) {
  const double begin = comm_.Now();
  comm_.Send(rank(index), tag, bytes);
  seconds_ += comm_.Now() - begin;
}

// Until that message is there, a rank is lost, or the deadline is over.
void RankGroup::ServeUntil(int source, int tag) {
  if (comm_.Poll(source, tag)) return;
  const Listening sign(comm_);
  const double end = comm_.Now() + comm_.deadline_seconds();
  const auto all_there = [this] { return comm_.losses() == nullptr || comm_.losses()->LostRanks().empty(); };
  do {
    serve_();
    std::this_thread::yield();
  } while (!comm_.Poll(source, tag) && comm_.Now() < end && all_there());
}

comm::Message RankGroup::Receive(int index, int tag) {
  const double begin = comm_.Now();
  if (serve_) ServeUntil(rank(index), tag);
  comm::Message message = comm_.Receive(rank(index), tag);
  seconds_ += comm_.Now() - begin;
  return message;
}

comm::Message RankGroup::ReceiveSized(int index, int tag, size_t size) {
  comm::Message message = Receive(index, tag);
  if (message.bytes.size() != size) {
    Throw<InputError>("rank {} gave {} bytes, rank {} expected {}: the ranks do not run the same experiment",
                      message.source, message.bytes.size(), comm_.rank(), size);
  }
  return message;
}

void RankGroup::ReceiveInto(int index, int tag, std::span<std::byte> bytes) {
  const comm::Message message = ReceiveSized(index, tag, bytes.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), message.bytes.data(), bytes.size());
}

template <class T>
void RankGroup::TreeAllReduce(std::span<T> values) {
  std::vector<T> other;
  for (int distance = 1; distance < size(); distance *= 2) {
    if (index_ % (2 * distance) != 0) {
      Send(index_ - distance, tag_ + kReduce, std::as_bytes(values));
      break;
    }
    if (index_ + distance >= size()) continue;
    other.resize(values.size());
    ReceiveInto(index_ + distance, tag_ + kReduce, std::as_writable_bytes(std::span(other)));
    for (size_t i = 0; i < values.size(); ++i) values[i] += other[i];
  }
  Broadcast(0, std::as_writable_bytes(values));
}

template <class T>
void RankGroup::SumOverGroup(std::span<T> values) {
  if (!comm::SumsInPieces(values.size(), size())) return TreeAllReduce(values);
  std::vector<int> nodes;
  for (const int rank : ranks_) nodes.push_back(comm_.Node(rank));
  Pieces carrier(*this);
  comm::SumInPieces(carrier, comm::SumPlan(nodes), values);
}

void RankGroup::AllReduce(std::span<float> values) { SumOverGroup(values); }
void RankGroup::AllReduce(std::span<double> values) { SumOverGroup(values); }

void RankGroup::Broadcast(int root_index, std::span<std::byte> bytes) {
  const int relative = (index_ - root_index + size()) % size();
  int distance = 1;
  while (distance < size() && relative % (2 * distance) == 0) distance *= 2;
  if (relative != 0) ReceiveInto((relative - distance + root_index) % size(), tag_ + kBroadcast, bytes);
  for (distance /= 2; distance > 0; distance /= 2) {
    if (relative + distance < size()) {
      Send((relative + distance + root_index) % size(), tag_ + kBroadcast, bytes);
    }
  }
}

std::vector<std::vector<float>> RankGroup::Exchange(std::span<const float> mine) {
  for (int i = 0; i < size(); ++i) {
    if (i != index_) SendTo(i, mine);
  }
  std::vector<std::vector<float>> all(ranks_.size());
  for (int i = 0; i < size(); ++i) {
    std::vector<float>& place = all[static_cast<size_t>(i)];
    if (i == index_) {
      place.assign(mine.begin(), mine.end());
      continue;
    }
    ReceiveFrom(i, [&](std::span<const float> theirs) { place.assign(theirs.begin(), theirs.end()); });
  }
  return all;
}

void RankGroup::SendTo(int index, std::span<const float> mine) { Send(index, tag_ + kExchange, std::as_bytes(mine)); }

void RankGroup::ReceiveFrom(int index, const std::function<void(std::span<const float>)>& take) {
  const comm::Message message = Receive(index, tag_ + kExchange);
  take({reinterpret_cast<const float*>(message.bytes.data()), message.bytes.size() / sizeof(float)});
}

}  // namespace antiphon::parallel
