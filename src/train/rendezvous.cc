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
  int32_t told = 0;     // it sent for the others
  int32_t at_end = 0;   // of its epoch
  int32_t workers = 0;  // that the run is to go on with
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

RunRequests::Asked AskedOfAny(comm::Communicator& comm, const RunRequests::Asked& mine) {
  const std::vector<double> all = SumOfAll(comm, {mine.stop ? 1.0 : 0.0, static_cast<double>(mine.workers)});
  return {.stop = all[0] > 0, .workers = all[0] > 0 ? 0 : static_cast<int>(all[1])};
}

bool Rendezvous::Due(int64_t step) const {
  if (BySteps(step)) return true;
  // What the machine's clock says must not get into a simulation.
  if (comm_.time_is_virtual()) return false;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_save_;
  return options_.minutes > 0 && since.count() >= 60 * options_.minutes;
}

Rendezvous::Decision Rendezvous::InStep(int64_t step, std::optional<bool> diverged) {
  const bool alone = comm_.world_size() == 1;
  const bool looks = BySteps(step) || step % kStepsBetweenLooks == 0;
  if (alone && !looks) return {.stop = CancelRequested(), .save = Due(step)};
  if (!looks) return {};
  const RunRequests::Asked mine = requests_.Look();
  std::vector<double> asked = {mine.stop ? 1.0 : 0.0, comm_.rank() == 0 && Due(step) ? 1.0 : 0.0,
                               static_cast<double>(mine.workers)};
  if (diverged) asked.push_back(*diverged ? 1.0 : 0.0);
  if (!alone) asked = SumOfAll(comm_, asked);
  const int workers = asked[0] > 0 ? 0 : static_cast<int>(asked[2]);
  return {.stop = asked[0] > 0 || workers > 0,
          .save = asked[1] > 0 || BySteps(step),
          .diverged = !alone && diverged && asked[3] > 0,
          .workers = workers};
}

bool Rendezvous::Wanted(int64_t step, bool& told) {
  if (BySteps(step) || step % kStepsBetweenLooks != 0) return BySteps(step);
  if (comm_.Poll(comm::Communicator::kAnySource, kMeetingTag)) return true;
  told = requests_.Look().any() || (comm_.rank() == 0 && Due(step));
  for (int r = 0; r < comm_.world_size() && told; ++r) {
    if (r != comm_.rank()) comm_.Send(r, kMeetingTag, {});
  }
  return told;
}

Rendezvous::Meeting Rendezvous::Meet(int64_t step, bool told, bool at_end) {
  const bool save = !at_end && (BySteps(step) || (comm_.rank() == 0 && Due(step)));
  const RunRequests::Asked asked = requests_.Look();
  const Word mine{step, asked.stop, save, told, at_end, asked.workers};
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
    meeting.workers += word.workers;
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
  const int workers = meeting.stop ? 0 : meeting.workers;
  return {.stop = meeting.stop || workers > 0, .save = meeting.save, .workers = workers};
}

std::optional<Rendezvous::Decision> Rendezvous::AtEndOfEpoch(int64_t step) {
  meeting_ = Meet(step, false, true);
  if (!meeting_->all_at_end) return Hold();
  meeting_.reset();
  return std::nullopt;
}

}  // namespace antiphon::train
