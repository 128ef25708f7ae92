// Where a run writes down what happens: metrics as JSON lines, TensorBoard events, the log, a progress bar.
//
// Files in the run folder: metrics.jsonl, events.out.tfevents.*. Positions of both stand in checkpoints, so that a
// resumed run repeats no record. Kinds of records: "start", "step", "epoch", "event" (fall-back, resume …), "finish".
// Files that are not what the checkpoint remembers are set aside with a warning: they are no reason not to go on.
// One object for the whole run, whoever writes: it stays where it is when another rank takes over in the middle of a
// record. Threads: one. Errors: IoError.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics.h"
#include "report/progress.h"
#include "report/tensorboard.h"
#include "train/checkpoint.h"

namespace antiphon::train {

class RunLog {
 public:
  /// Who wants to hear of every record, as one JSON object, when it has been written.
  using Listener = std::function<void(const std::string& json)>;

  /// Keeps silent until Open or TakeOver.
  explicit RunLog(std::filesystem::path folder, Listener listener = {})
      : folder_(std::move(folder)), listener_(std::move(listener)) {}

  /// Writes from here on, behind what the position remembers of the files.
  void Open(const Position& position);
  /// Writes from here on, as whoever did so is lost. What that could not write any more of the last records is written
  /// now. Fills in the file positions.
  void TakeOver(Position& position);
  void Close();

  void Write(const report::MetricsRecord& record);
  void Scalar(const std::string& tag, int64_t step, double value);
  void Text(const std::string& tag, const std::string& text);
  /// Something to be told in metrics, log and report alike: `what` is a short name, `message` a sentence.
  void Event(const Position& position, const std::string& what, const std::string& message);
  /// Workers, as numbered at the start, are lost, and `left` others go on.
  void Loss(const Position& position, const std::vector<int>& workers, int left, int64_t given_back);
  /// Fills in the file positions.
  void NotePosition(Position& position) const;

 private:
  std::filesystem::path folder_;
  Listener listener_;
  std::deque<report::MetricsRecord> unwritten_;     // the last ones while this keeps silent
  std::unique_ptr<report::MetricsWriter> metrics_;  // null: keeps silent
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace antiphon::train
