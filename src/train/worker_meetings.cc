// The part of Worker that saves and stops within an epoch when workers do not go in step.
//
// Whoever has to save or to stop tells the others, who look for that every so many steps. Then all meet: each says
// which step it has taken, those that are behind go on to the latest one, and there, at the same step, everybody saves.
// Who has come to the end of the epoch waits for the others in a meeting too, so that all hold the same meetings.
#include <algorithm>
#include <cstring>

#include "base/cancel.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

constexpr int kMeetingTag = 1 << 22;
constexpr int64_t kStepsBetweenLooks = 16;

// What a worker says when it comes to a meeting.
struct Word {
  int64_t step = 0;
  int32_t stop = 0;
  int32_t save = 0;
  int32_t told = 0;    // it sent for the others
  int32_t at_end = 0;  // of its epoch
};

}  // namespace

bool Worker::WantsMeeting(bool& told) {
  const bool by_steps = options_.checkpoint.steps > 0 && position_.step % options_.checkpoint.steps == 0;
  if (by_steps || position_.step % kStepsBetweenLooks != 0) return by_steps;
  if (comm_.Poll(comm::Communicator::kAnySource, kMeetingTag)) return true;
  // Clocks differ between ranks: the first one's decides.
  told = CancelRequested() || (comm_.rank() == 0 && CheckpointDue(position_.step));
  for (int r = 0; r < comm_.world_size() && told; ++r) {
    if (r != comm_.rank()) comm_.Send(r, kMeetingTag, {});
  }
  return told;
}

Worker::Meeting Worker::Meet(bool told, bool at_end) {
  const bool by_steps = options_.checkpoint.steps > 0 && position_.step % options_.checkpoint.steps == 0;
  const bool save = !at_end && (by_steps || (comm_.rank() == 0 && CheckpointDue(position_.step)));
  const Word mine{position_.step, CancelRequested(), save, told, at_end};
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

// After a step. True: stop; everything is saved.
bool Worker::ReachMeeting() {
  if (!meeting_) {
    bool told = false;
    if (!WantsMeeting(told)) return false;
    meeting_ = Meet(told, false);
  }
  return position_.step == meeting_->step && HoldMeeting();
}

// All are at the same step.
bool Worker::HoldMeeting() {
  const Meeting meeting = *std::exchange(meeting_, std::nullopt);
  if (meeting.save || meeting.stop) WriteCheckpoint();
  return meeting.stop;
}

// True: stop; everything is saved.
bool Worker::WaitForEndOfEpoch() {
  for (;;) {
    meeting_ = Meet(false, true);
    if (meeting_->all_at_end) {
      meeting_.reset();
      return false;
    }
    if (HoldMeeting()) return true;
  }
}

}  // namespace antiphon::train
