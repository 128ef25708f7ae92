#include "train/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/cancel.h"

namespace antiphon::train {
namespace {

constexpr int kMeetingTag = 1 << 22;
constexpr int64_t kStepsBetweenLooks = 16;

// What a rank says when it comes to a meeting.
struct Word {
  int64_t step = 0;
  int32_t stop = 0;
  int32_t save = 0;
  int32_t told = 0;    // it sent for the others
  int32_t at_end = 0;  // of its epoch
};

}  // namespace

std::vector<double> SumOfAll(comm::Communicator& comm, const std::vector<double>& mine) {
  std::vector<double> sums;
  comm.Together([&] {
    sums = mine;
    comm.AllReduce(std::span<double>(sums));
  });
  return sums;
}

bool Rendezvous::Due(int64_t step) const {
  if (BySteps(step)) return true;
  // What the machine's clock says must not get into a simulation.
  if (comm_.time_is_virtual()) return false;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_save_;
  return options_.minutes > 0 && since.count() >= 60 * options_.minutes;
}

Rendezvous::Decision Rendezvous::InStep(int64_t step, std::optional<bool> diverged) {
  if (comm_.world_size() == 1) return {CancelRequested(), Due(step), false};
  if (!BySteps(step) && step % kStepsBetweenLooks != 0) return {};
  std::vector<double> asked = {CancelRequested() ? 1.0 : 0.0, comm_.rank() == 0 && Due(step) ? 1.0 : 0.0};
  if (diverged) asked.push_back(*diverged ? 1.0 : 0.0);
  asked = SumOfAll(comm_, asked);
  return {asked[0] > 0, asked[1] > 0 || BySteps(step), diverged && asked[2] > 0};
}

bool Rendezvous::Wanted(int64_t step, bool& told) {
  if (BySteps(step) || step % kStepsBetweenLooks != 0) return BySteps(step);
  if (comm_.Poll(comm::Communicator::kAnySource, kMeetingTag)) return true;
  told = CancelRequested() || (comm_.rank() == 0 && Due(step));
  for (int r = 0; r < comm_.world_size() && told; ++r) {
    if (r != comm_.rank()) comm_.Send(r, kMeetingTag, {});
  }
  return told;
}

Rendezvous::Meeting Rendezvous::Meet(int64_t step, bool told, bool at_end) {
  const bool save = !at_end && (BySteps(step) || (comm_.rank() == 0 && Due(step)));
  const Word mine{step, CancelRequested(), save, told, at_end};
  const std::vector<std::byte> bytes = comm_.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::vector<Word> all(static_cast<size_t>(comm_.world_size()));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  Meeting meeting;
  meeting.all_at_end = true;
  for (int r = 0; r < comm_.world_size(); ++r) {
    const Word& word = all[static_cast<size_t>(r)];
    if (word.told != 0 && r != comm_.rank()) comm_.Receive(r, kMeetingTag);
    meeting.step = std::max(meeting.step, word.step);
    meeting.stop = meeting.stop || word.stop != 0;
    meeting.save = meeting.save || word.save != 0;
    meeting.all_at_end = meeting.all_at_end && word.at_end != 0;
  }
  return meeting;
}

Rendezvous::Decision Rendezvous::AtMeeting(int64_t step) {
  if (!meeting_) {
    bool told = false;
    if (!Wanted(step, told)) return {};
    meeting_ = Meet(step, told, false);
  }
  return step == meeting_->step ? Hold() : Decision();
}

// All are at the same step.
Rendezvous::Decision Rendezvous::Hold() {
  const Meeting meeting = *std::exchange(meeting_, std::nullopt);
  return {meeting.stop, meeting.save, false};
}

std::optional<Rendezvous::Decision> Rendezvous::AtEndOfEpoch(int64_t step) {
  meeting_ = Meet(step, false, true);
  if (!meeting_->all_at_end) return Hold();
  meeting_.reset();
  return std::nullopt;
}

}  // namespace antiphon::train
