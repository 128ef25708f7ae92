#include "comm/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/second_thread.h"

namespace antiphon::comm {
namespace {

// Tags of the hub's own letters, above those of the collectives.
constexpr int kAppliedTag = Communicator::kFirstInternalTag + 1000;  // an accumulation was applied
constexpr int kReadTag = Communicator::kFirstInternalTag + 1001;     // answer to Get

// Accumulations to one other process that may be under way at a time.
constexpr int kMostUnderWay = 4;

std::string Receiving(int source) {
  return source == Communicator::kAnySource ? "receiving from any rank" : fmt::format("receiving from rank {}", source);
}

std::span<const float> AsFloats(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

void AtomicAdd(std::span<float> memory, float scale, std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::atomic_ref<float>(memory[i]).fetch_add(scale * values[i], std::memory_order_relaxed);
  }
}

void AtomicRead(std::span<float> memory, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::atomic_ref<float>(memory[i]).load(std::memory_order_relaxed);
  }
}

Hub::Hub(int world_size, int first, int count, Transport* transport, uint32_t world, std::vector<int> nodes,
         std::vector<std::string> machines)
    : world_size_(world_size),
      first_(first),
      count_(count),
      transport_(transport),
      world_(world),
      nodes_(std::move(nodes)),
      machines_(std::move(machines)),
      shared_sum_(count),
      survives_losses_(transport != nullptr && transport->survives_losses()),
      lost_(static_cast<size_t>(world_size)) {
  CHECK(first >= 0 && count >= 1 && first + count <= world_size) << first << " + " << count << " of " << world_size;
  CHECK(transport != nullptr || count == world_size);
  for (int i = 0; i < count; ++i) mailboxes_.push_back(std::make_unique<Mailbox>());
}

void Hub::Deliver(int destination, Letter letter) {
  Mailbox& box = BoxOf(destination);
  {
    const std::lock_guard lock(box.mutex);
    box.letters.push_back(std::move(letter));
    ++box.delivered;
  }
  box.arrived.notify_all();
}

std::string Hub::OnMachine(int rank) const {
  if (machines_.empty() || IsLocal(rank)) return "";
  return fmt::format(" on '{}'", machines_[static_cast<size_t>(rank)]);
}

void Hub::Arrived(const Envelope& envelope, std::vector<std::byte> bytes) {
  if (envelope.kind == MessageKind::kAbort) {
    return Abort(AbortReason::FromBytes(bytes));
  }
  CHECK(IsLocal(envelope.destination)) << envelope.destination;
  if (envelope.kind == MessageKind::kLetter) {
    return Deliver(envelope.destination, {envelope.source, envelope.tag, std::move(bytes)});
  }
  Envelope answer = envelope;
  answer.kind = MessageKind::kLetter;
  answer.source = envelope.destination;
  answer.destination = envelope.source;
  if (envelope.kind == MessageKind::kAccumulate) {
    const std::span<const float> values = AsFloats(bytes);
    AtomicAdd(Window(envelope.destination, envelope.tag, envelope.offset, values.size()), envelope.scale, values);
    answer.tag = kAppliedTag;
    answer.size = 0;
    return transport_->Send(answer, {});
  }
  std::vector<float> values(envelope.size);
  AtomicRead(Window(envelope.destination, envelope.tag, envelope.offset, values.size()), values);
  answer.tag = kReadTag;
  answer.size = std::span(values).size_bytes();
  transport_->Send(answer, std::as_bytes(std::span(values)));
}

std::span<float> Hub::Window(int rank, int id, size_t offset, size_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find({rank, id});
  CHECK(found != windows_.end()) << "window " << id << " of rank " << rank << " is not open";
  CHECK_LE(offset + size, found->second.size());
  return found->second.subspan(offset, size);
}

void Hub::Abort(AbortReason reason) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    abort_reason_ = std::move(reason);
    aborted_ = true;
  }
  WakeAll();
}

void Hub::MarkLost(int rank) {
  if (lost_[static_cast<size_t>(rank)].exchange(true)) return;
  ++num_lost_;
  WakeAll();
}

// Taking the lock makes sure that nobody is between looking at the state and waiting.
void Hub::WakeAll() {
  for (const auto& box : mailboxes_) {
    const std::lock_guard lock(box->mutex);
    box->arrived.notify_all();
  }
}

class HubCommunicator : public Communicator, public SecondThread, public LossTolerance {
 public:
  HubCommunicator(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), waited_(static_cast<size_t>(hub_->world_size_), 0.0) {}

  int rank() const override { return rank_; }
  int world_size() const override { return hub_->world_size_; }
  int Node(int rank) const override { return hub_->Node(rank); }
  std::vector<double> waited_seconds() const override { return waited_; }

  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    if (!MaySend(destination, bytes.size())) return;
    if (hub_->IsLocal(destination)) {
      hub_->Deliver(destination, {rank_, tag, {bytes.begin(), bytes.end()}});
    } else {
      Envelope envelope = EnvelopeTo(destination, MessageKind::kLetter, tag);
      envelope.size = bytes.size();
      hub_->transport_->Send(envelope, bytes);
    }
  }

  void SendAway(int destination, int tag, std::vector<std::byte>& bytes) override {
    if (!hub_->IsLocal(destination)) return Send(destination, tag, bytes);
    if (MaySend(destination, bytes.size())) hub_->Deliver(destination, {rank_, tag, std::move(bytes)});
  }

  Message Receive(int source, int tag) override {
    Hub::Mailbox& box = hub_->BoxOf(rank_);
    const auto begin = std::chrono::steady_clock::now();
    const auto end = begin + std::chrono::duration<double>(deadline_seconds());
    std::unique_lock lock(box.mutex);
    if (Has(box, source, tag)) return Take(box, source, tag);
    const WaitingSign sign(hub_->transport_);
    for (;;) {
      ThrowIfAborted([&] { return Receiving(source); });
      if (Has(box, source, tag)) return Waited(begin, Take(box, source, tag));
      ThrowIfLost(source, [&] { return Receiving(source); });
      if (box.arrived.wait_until(lock, end) == std::cv_status::timeout && !Has(box, source, tag)) {
        ThrowIfAborted([&] { return Receiving(source); });
        Throw<PeerError>("{}: no message within {} s{}", Describe(Receiving(source)), deadline_seconds(),
                         WhyNone(source));
      }
    }
  }

  bool Poll(int source, int tag) override {
    ThrowIfAborted([] { return "looking for messages"; });
    Hub::Mailbox& box = hub_->BoxOf(rank_);
    const std::lock_guard lock(box.mutex);
    return Has(box, source, tag);
  }

  void SetListening(bool listening) override {
    if (hub_->transport_ != nullptr) hub_->transport_->Waiting(listening ? 1 : -1);
  }

  // One thread per rank where losses are survived: who noticed one has to deal with it.
  bool allowed() const override {
    return !hub_->survives_losses_ && (hub_->transport_ == nullptr || !hub_->transport_->survives_losses());
  }
  void AwaitNews(double seconds) override {
    second_thread_ = std::this_thread::get_id();
    Hub::Mailbox& box = hub_->BoxOf(rank_);
    std::unique_lock lock(box.mutex);
    box.arrived.wait_for(lock, std::chrono::duration<double>(seconds),
                         [&] { return hub_->aborted_ || box.delivered != seen_; });
    seen_ = box.delivered;
  }

  void OpenWindow(int id, std::span<float> memory) override {
    {
      const std::lock_guard lock(hub_->mutex_);
      hub_->windows_[{rank_, id}] = memory;
    }
    Barrier();
  }
  void CloseWindow(int id) override {
    Barrier();
    const std::lock_guard lock(hub_->mutex_);
    hub_->windows_.erase({rank_, id});
  }

  void LeaveBehind(std::vector<float> memory) override {
    const std::lock_guard lock(hub_->mutex_);
    hub_->left_behind_.push_back(std::move(memory));
  }

  // An accumulation at a rank of this process need not be waited for.
  void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) override {
    if (target != rank_) CountSent(values.size_bytes());
    ThrowIfAborted([&] { return fmt::format("accumulating at rank {}", target); });
    if (hub_->IsLocal(target)) return AtomicAdd(hub_->Window(target, id, offset, values.size()), scale, values);
    if (Dropped(target)) return;
    FlushAccumulations(kMostUnderWay - 1);
    Envelope envelope = EnvelopeTo(target, MessageKind::kAccumulate, id);
    envelope.offset = offset;
    envelope.scale = scale;
    envelope.size = values.size_bytes();
    hub_->transport_->Send(envelope, std::as_bytes(values));
    under_way_.push_back(target);
  }

  void Get(int target, int id, size_t offset, std::span<float> values) override {
    if (target != rank_) CountSent(values.size_bytes());
    ThrowIfAborted([&] { return fmt::format("reading from rank {}", target); });
    if (hub_->IsLocal(target)) return AtomicRead(hub_->Window(target, id, offset, values.size()), values);
    ThrowIfLost(target, [&] { return fmt::format("reading from rank {}", target); });
    Envelope envelope = EnvelopeTo(target, MessageKind::kGet, id);
    envelope.offset = offset;
    envelope.size = values.size();
    hub_->transport_->Send(envelope, {});
    const Message answer = Receive(target, kReadTag);
    CHECK_EQ(answer.bytes.size(), values.size_bytes());
    if (!values.empty()) std::memcpy(values.data(), answer.bytes.data(), answer.bytes.size());
  }

  double Now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void Abort(const AbortReason& reason) override {
    const AbortReason passed_on = reason.From(rank_);
    if (hub_->aborted_) return;
    hub_->Abort(passed_on);
    if (hub_->transport_ == nullptr) return;
    Envelope envelope = EnvelopeTo(-1, MessageKind::kAbort, 0);
    const std::vector<std::byte> bytes = passed_on.ToBytes();
    envelope.size = bytes.size();
    hub_->transport_->Send(envelope, bytes);
    constexpr double kSecondsToTell = 5;
    hub_->transport_->Drain(kSecondsToTell);
  }

  LossTolerance* losses() override { return this; }
  std::vector<int> LostRanks() const override {
    std::vector<int> lost;
    for (int r = 0; r < world_size(); ++r) {
      if (hub_->lost_[static_cast<size_t>(r)]) lost.push_back(r);
    }
    return lost;
  }
  bool survives_losses() const override { return hub_->survives_losses_; }
  void TolerateLosses(bool tolerate) override { tolerates_losses_ = tolerate; }
  void AcceptLosses(std::span<const int> ranks) override {
    accepted_.resize(static_cast<size_t>(world_size()), false);
    for (const int r : ranks) accepted_[static_cast<size_t>(r)] = true;
  }
  void BecomeLost() override { hub_->MarkLost(rank_); }

 protected:
  // Counts as sent what would have been in messages: every rank's part of the values to its owner, and the sums back.
  bool SumShared(std::span<float> values) override {
    if (!AllHere() || world_size() == 1 || values.size() < SharedSum::kLeast) return false;
    const int64_t sent = bytes_sent();
    hub_->shared_sum_.Sum(rank_, values, [this] { Barrier(); });
    const size_t mine = Part(rank_ + 1, values.size()) - Part(rank_, values.size());
    const size_t others = static_cast<size_t>(world_size() - 1);
    CountSent((values.size() - mine + others * mine) * sizeof(float) - static_cast<size_t>(bytes_sent() - sent));
    return true;
  }

 private:
  struct WaitingSign {
    explicit WaitingSign(Transport* its_transport) : transport(its_transport) {
      if (transport != nullptr) transport->Waiting(1);
    }
    WaitingSign(const WaitingSign&) = delete;
    ~WaitingSign() {
      if (transport != nullptr) transport->Waiting(-1);
    }
    Transport* transport;
  };

  // What the second thread waits for holds nobody up.
  Message Waited(std::chrono::steady_clock::time_point begin, Message message) {
    if (std::this_thread::get_id() != second_thread_.load()) {
      waited_[static_cast<size_t>(message.source)] +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    return message;
  }
  // bytes_sent belongs to the first thread, which adds what the second one sent when it sends next.
  void Count(size_t bytes) {
    if (std::this_thread::get_id() == second_thread_.load()) {
      sent_by_second_ += bytes;
    } else {
      CountSent(bytes + sent_by_second_.exchange(0));
    }
  }
  Envelope EnvelopeTo(int destination, MessageKind kind, int tag) const {
    Envelope envelope;
    envelope.kind = kind;
    envelope.world = hub_->world_;
    envelope.source = rank_;
    envelope.destination = destination;
    envelope.tag = tag;
    envelope.step = step();
    return envelope;
  }
  // Waits until at most `most` accumulations are under way.
  void FlushAccumulations(size_t most) {
    while (under_way_.size() > most) {
      const int target = under_way_.front();
      under_way_.pop_front();
      if (!hub_->lost_[static_cast<size_t>(target)]) Receive(target, kAppliedTag);
    }
  }
  static std::deque<Hub::Letter>::iterator Find(Hub::Mailbox& box, int source, int tag) {
    return std::find_if(box.letters.begin(), box.letters.end(), [&](const Hub::Letter& letter) {
      return letter.tag == tag && (source == kAnySource || letter.source == source);
    });
  }
  static bool Has(Hub::Mailbox& box, int source, int tag) { return Find(box, source, tag) != box.letters.end(); }
  static Message Take(Hub::Mailbox& box, int source, int tag) {
    const auto found = Find(box, source, tag);
    Message message{found->source, std::move(found->bytes)};
    box.letters.erase(found);
    return message;
  }
  template <class Operation>
  void ThrowIfAborted(const Operation& operation) const {
    if (!hub_->aborted_) return;
    const std::lock_guard lock(hub_->mutex_);
    hub_->abort_reason_.Throw(Describe(operation()));
  }
  template <class Operation>
  void ThrowIfLost(int peer, const Operation& operation) const {
    if (hub_->num_lost_ == 0) return;
    const bool all_lost = peer == kAnySource && hub_->num_lost_ == world_size() - 1;
    const bool this_lost = peer != kAnySource && hub_->lost_[static_cast<size_t>(peer)];
    if (!all_lost && !this_lost && AllDealtWith()) return;
    std::string lost;
    for (const int r : LostRanks()) lost += fmt::format("{}{}{}", lost.empty() ? "" : ", ", r, hub_->OnMachine(r));
    Throw<PeerLost>("{}: rank {} is lost", Describe(operation()), lost);
  }
  // Over machines: what may have kept it, and what to do.
  std::string WhyNone(int source) const {
    if (source == kAnySource || hub_->OnMachine(source).empty()) return "";
    return fmt::format(
        "; rank {}{} hangs, is stopped or cut off, waits itself for one that does, or needs longer (training: "
        "deadline-seconds)",
        source, hub_->OnMachine(source));
  }

  // Threads of one process, of which none can be lost alone.
  bool AllHere() const { return hub_->transport_ == nullptr && !hub_->survives_losses_; }
  bool IsAccepted(int peer) const { return !accepted_.empty() && accepted_[static_cast<size_t>(peer)]; }
  // Whether what goes to a rank is dropped.
  // What goes before every message; false if it is to be dropped.
  bool MaySend(int destination, size_t bytes) {
    CHECK(destination >= 0 && destination < world_size()) << destination;
    if (destination != rank_) Count(bytes);
    const auto operation = [&] { return fmt::format("sending to rank {}", destination); };
    ThrowIfAborted(operation);
    // Whoever hears from this rank sees its accumulations.
    FlushAccumulations(0);
    if (Dropped(destination)) return false;
    ThrowIfLost(destination, operation);
    return true;
  }
  bool Dropped(int peer) const {
    return hub_->lost_[static_cast<size_t>(peer)] && (tolerates_losses_ || IsAccepted(peer));
  }
  bool AllDealtWith() const {
    if (tolerates_losses_) return true;
    for (int r = 0; r < world_size(); ++r) {
      if (hub_->lost_[static_cast<size_t>(r)] && !IsAccepted(r)) return false;
    }
    return true;
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  std::vector<double> waited_;  // seconds, by rank
  bool tolerates_losses_ = false;
  std::atomic<std::thread::id> second_thread_ = std::thread::id();
  std::atomic<size_t> sent_by_second_ = 0;
  uint64_t seen_ = 0;           // by the second thread, of what was delivered
  std::vector<bool> accepted_;  // losses, by rank; empty: none
  std::deque<int> under_way_;   // targets of accumulations not yet known to be applied
};

std::unique_ptr<Communicator> ConnectToHub(std::shared_ptr<Hub> hub, int rank) {
  CHECK(hub->IsLocal(rank)) << rank;
  return std::make_unique<HubCommunicator>(std::move(hub), rank);
}

}  // namespace antiphon::comm
