#include "parallel/surviving_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/finally.h"

namespace antiphon::parallel {
namespace {

constexpr int kBallotTag = 1 << 27;
constexpr int kDecisionTag = kBallotTag + 1;

template <class T>
void Append(const T& value, std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

template <class T>
T Take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

bool Contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

// How votes travel.
struct SurvivingCommunicator::Post {
  static void Write(const Decision& decision, std::vector<std::byte>& bytes) {
    Append(decision.vote, bytes);
    Append(decision.outcome, bytes);
    Append(static_cast<int32_t>(decision.lost.size()), bytes);
    for (const int rank : decision.lost) Append(rank, bytes);
  }
  static std::vector<std::byte> Of(const Decision& decision) {
    std::vector<std::byte> bytes;
    Write(decision, bytes);
    return bytes;
  }
  static std::vector<std::byte> Of(const Ballot& ballot) {
    std::vector<std::byte> bytes;
    Append(ballot.vote, bytes);
    Append(ballot.outcome, bytes);
    Write(ballot.last, bytes);
    return bytes;
  }
  static Decision ReadDecision(std::span<const std::byte> bytes) {
    Decision decision;
    decision.vote = Take<int64_t>(bytes);
    decision.outcome = Take<Outcome>(bytes);
    decision.lost.resize(static_cast<size_t>(Take<int32_t>(bytes)));
    for (int& rank : decision.lost) rank = Take<int>(bytes);
    return decision;
  }
  static Ballot ReadBallot(std::span<const std::byte> bytes) {
    Ballot ballot;
    ballot.vote = Take<int64_t>(bytes);
    ballot.outcome = Take<Outcome>(bytes);
    ballot.last = ReadDecision(bytes);
    return ballot;
  }
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
  const Ballot mine{.vote = ++votes_, .outcome = through ? kThrough : kAgain, .last = last_};
  missing_.clear();
  {
    whole_.losses()->TolerateLosses(true);
    const Finally strict([this] { whole_.losses()->TolerateLosses(false); });
    std::optional<Decision> decision;
    while (!(decision = AskFirst(mine))) {
    }
    last_ = std::move(*decision);
  }
  if (last_.outcome == kGivesUp) throw comm::PeerLost(Describe("going on without lost ranks") + ": it is not possible");
  if (!last_.lost.empty()) Renumber(last_);
  return last_.outcome == kThrough;
}

// The first living rank decides, which may be this one. Nothing if that is lost, and so another one has to.
std::optional<SurvivingCommunicator::Decision> SurvivingCommunicator::AskFirst(const Ballot& mine) {
  const auto first =
      *std::find_if(living_.begin(), living_.end(), [this](int rank) { return !Contains(missing_, rank); });
  if (first == whole_.rank()) {
    const Decision decision = Count(mine);
    TellAll(decision);
    return decision;
  }
  try {
    whole_.Send(first, kBallotTag, Post::Of(mine));
    for (;;) {
      Decision decision = Post::ReadDecision(whole_.Receive(first, kDecisionTag).bytes);
      // One that came too late from a lost rank is known from another.
      if (decision.vote == mine.vote || decision.outcome == kGivesUp) return decision;
    }
  } catch (const comm::PeerLost&) {
    missing_.push_back(first);
    return std::nullopt;
  }
}

// Whoever says nothing any more is lost.
SurvivingCommunicator::Decision SurvivingCommunicator::Count(const Ballot& mine) {
  Decision decision{.vote = mine.vote, .outcome = mine.outcome, .lost = {}};
  std::optional<Decision> said;  // by a rank that has decided this vote, and is lost
  for (const int rank : living_) {
    if (rank == whole_.rank()) continue;
    const std::optional<Ballot> ballot = Collect(rank);
    if (!ballot) {
      decision.lost.push_back(rank);
    } else if (ballot->outcome == kGivesUp) {
      decision.outcome = kGivesUp;
    } else if (ballot->vote > mine.vote) {
      said = ballot->last;
    } else if (ballot->outcome == kAgain && decision.outcome == kThrough) {
      decision.outcome = kAgain;
    }
  }
  return said && decision.outcome != kGivesUp ? *said : decision;
}

// What a rank says to the vote under way, or, if it knows the outcome, to the next. Who is behind is told the last
// outcome, which the rank that decided could not tell any more. Nothing if it is lost.
std::optional<SurvivingCommunicator::Ballot> SurvivingCommunicator::Collect(int rank) {
  if (const auto early = ahead_.find(rank); early != ahead_.end()) {
    const Ballot ballot = early->second;
    if (ballot.vote <= votes_) ahead_.erase(early);
    return ballot;
  }
  try {
    for (;;) {
      const Ballot ballot = Post::ReadBallot(whole_.Receive(rank, kBallotTag).bytes);
      if (ballot.vote < votes_ && ballot.outcome != kGivesUp) {
        whole_.Send(rank, kDecisionTag, Post::Of(last_));
        continue;
      }
      if (ballot.vote > votes_) ahead_[rank] = ballot;
      return ballot;
    }
  } catch (const comm::PeerLost&) {
    return std::nullopt;
  }
}

// All that wait for it.
void SurvivingCommunicator::TellAll(const Decision& decision) {
  const std::vector<std::byte> bytes = Post::Of(decision);
  for (const int rank : living_) {
    if (rank == whole_.rank() || Contains(decision.lost, rank) || ahead_.contains(rank)) continue;
    whole_.Send(rank, kDecisionTag, bytes);
  }
}

// Any of the others may have to decide.
void SurvivingCommunicator::CastAtAll(Outcome outcome) {
  const Ballot ballot{.vote = votes_ + 1, .outcome = outcome, .last = last_};
  try {
    whole_.losses()->TolerateLosses(true);
    for (const int rank : living_) {
      if (rank != whole_.rank()) whole_.Send(rank, kBallotTag, Post::Of(ballot));
    }
    // Whoever comes first now is asked to decide, and does not answer any more.
    TellAll(outcome == kGivesUp ? Decision{.vote = votes_, .outcome = kGivesUp, .lost = {}} : last_);
  } catch (const PeerError&) {
    // The run ends for another reason, of which all know.
  }
}

void SurvivingCommunicator::Renumber(const Decision& decision) {
  const std::vector<int>& lost = decision.lost;
  Loss loss;
  loss.first_ranks = lost;
  loss.world_size = static_cast<int>(living_.size());
  loss.again = decision.outcome != kThrough;
  std::vector<int> left;
  for (size_t i = 0; i < living_.size(); ++i) {
    const bool gone = Contains(lost, living_[i]);
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
  if (told_) CastAtAll(kGivesUp);
}

void SurvivingCommunicator::Leave() {
  if (told_) CastAtAll(kThrough);
}

bool SurvivingCommunicator::allowed() const {
  const auto* second = dynamic_cast<const comm::SecondThread*>(&whole_);
  return second != nullptr && second->allowed() && !told_;
}

void SurvivingCommunicator::AwaitNews(double seconds) { dynamic_cast<comm::SecondThread&>(whole_).AwaitNews(seconds); }

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
