#include "parallel/surviving_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/finally.h"

namespace antiphon::parallel {
namespace {

constexpr int kBallotTag = 1 << 24;
constexpr int kDecisionTag = kBallotTag + 1;

enum Ballot : int32_t { kAgain, kThrough, kGivesUp };

}  // namespace

struct SurvivingCommunicator::Decision {
  Ballot ballot = kThrough;
  std::vector<int> lost;  // as numbered at the start
};

void SurvivingCommunicator::GoOn(std::function<void(const Loss&)> told) {
  if (whole_.losses() == nullptr || !whole_.losses()->survives_losses()) return;
  told_ = std::move(told);
  living_.resize(static_cast<size_t>(whole_.world_size()));
  std::iota(living_.begin(), living_.end(), 0);
}

void SurvivingCommunicator::GoThrough(const std::function<void()>& body) {
  if (together_) return body();
  together_ = true;
  const Finally leave([this] { together_ = false; });
  for (bool done = false; !done;) {
    bool through = true;
    try {
      body();
    } catch (const comm::PeerLost&) {
      through = false;
    }
    done = Vote(through);
  }
}

// True if all that are left got through.
bool SurvivingCommunicator::Vote(bool through) {
  Decision decision;
  {
    whole_.losses()->TolerateLosses(true);
    const Finally strict([this] { whole_.losses()->TolerateLosses(false); });
    if (whole_.rank() == 0) {
      decision = Count(through);
      Tell(decision);
    } else {
      const Ballot mine = through ? kThrough : kAgain;
      whole_.Send(0, kBallotTag, std::as_bytes(std::span(&mine, 1)));
      const comm::Message answer = whole_.Receive(0, kDecisionTag);
      std::memcpy(&decision.ballot, answer.bytes.data(), sizeof(Ballot));
      decision.lost.resize((answer.bytes.size() - sizeof(Ballot)) / sizeof(int));
      if (!decision.lost.empty()) {
        std::memcpy(decision.lost.data(), answer.bytes.data() + sizeof(Ballot), decision.lost.size() * sizeof(int));
      }
    }
  }
  if (decision.ballot == kGivesUp)
    throw comm::PeerLost(Describe("going on without lost ranks") + ": it is not possible");
  if (!decision.lost.empty()) Renumber(decision.lost);
  return decision.ballot == kThrough;
}

// Of rank 0. Whoever says nothing any more is lost.
SurvivingCommunicator::Decision SurvivingCommunicator::Count(bool through) {
  Decision decision;
  decision.ballot = through ? kThrough : kAgain;
  for (const int rank : living_) {
    if (rank == 0) continue;
    try {
      const comm::Message message = whole_.Receive(rank, kBallotTag);
      Ballot theirs = kThrough;
      std::memcpy(&theirs, message.bytes.data(), sizeof(Ballot));
      if (theirs == kGivesUp || (theirs == kAgain && decision.ballot == kThrough)) decision.ballot = theirs;
    } catch (const comm::PeerLost&) {
      decision.lost.push_back(rank);
    }
  }
  return decision;
}

void SurvivingCommunicator::Tell(const Decision& decision) {
  std::vector<std::byte> bytes(sizeof(Ballot) + decision.lost.size() * sizeof(int));
  std::memcpy(bytes.data(), &decision.ballot, sizeof(Ballot));
  if (!decision.lost.empty()) {
    std::memcpy(bytes.data() + sizeof(Ballot), decision.lost.data(), decision.lost.size() * sizeof(int));
  }
  for (const int rank : living_) {
    const bool gone = std::find(decision.lost.begin(), decision.lost.end(), rank) != decision.lost.end();
    if (rank != 0 && !gone) whole_.Send(rank, kDecisionTag, bytes);
  }
}

void SurvivingCommunicator::Renumber(const std::vector<int>& lost) {
  Loss loss;
  loss.first_ranks = lost;
  loss.world_size = static_cast<int>(living_.size());
  std::vector<int> left;
  for (size_t i = 0; i < living_.size(); ++i) {
    const bool gone = std::find(lost.begin(), lost.end(), living_[i]) != lost.end();
    if (gone) loss.ranks.push_back(static_cast<int>(i));
    if (!gone) left.push_back(living_[i]);
  }
  whole_.losses()->AcceptLosses(lost);
  living_ = std::move(left);
  // Other tags for each numbering: what was sent before must not be taken for an answer.
  part_ = std::make_unique<SubCommunicator>(whole_, living_, numberings_++);
  told_(loss);
}

void SurvivingCommunicator::GiveUp() {
  if (!told_) return;
  try {
    whole_.losses()->TolerateLosses(true);
    const Ballot mine = kGivesUp;
    if (whole_.rank() == 0) {
      Tell({mine, {}});
    } else {
      whole_.Send(0, kBallotTag, std::as_bytes(std::span(&mine, 1)));
    }
  } catch (const PeerError&) {
    // The run ends for another reason, of which all know.
  }
}

bool SurvivingCommunicator::allowed() const {
  const auto* second = dynamic_cast<const comm::SecondThread*>(&whole_);
  return second != nullptr && second->allowed() && !told_;
}

void SurvivingCommunicator::AwaitMessage(int source, int tag, double seconds) {
  dynamic_cast<comm::SecondThread&>(whole_).AwaitMessage(source, tag, seconds);
}

// The whole knows whether it has a faster way.
bool SurvivingCommunicator::SumShared(std::span<float> values) {
  if (told_) return false;
  whole_.AllReduce(values);
  return true;
}

void SurvivingCommunicator::SetStep(int64_t step) {
  Communicator::SetStep(step);
  whole_.SetStep(step);
}

void SurvivingCommunicator::set_deadline_seconds(double seconds) {
  Communicator::set_deadline_seconds(seconds);
  whole_.set_deadline_seconds(seconds);
  if (part_) part_->set_deadline_seconds(seconds);
}

}  // namespace antiphon::parallel
