// Where a run writes down what happens: metrics as JSON lines, TensorBoard events, the log, a progress bar.
//
// Files in the run folder: metrics.jsonl, events.out.tfevents.*. Positions of both stand in checkpoints, so that a
// resumed run repeats no record. Kinds of records: "start", "step", "epoch", "event" (fall-back, resume …), "finish".
// Files that are not what the checkpoint remembers are set aside with a warning: they are no reason not to go on.
// Threads: one. Errors: IoError.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
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

  /// Rank 0 writes files and shows progress; other ranks keep silent.
  RunLog(const std::filesystem::path& folder, bool writes, uint64_t metrics_bytes, uint64_t events_bytes,
         Listener listener = {});

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
  std::unique_ptr<report::MetricsWriter> metrics_;
  std::unique_ptr<report::TensorBoardWriter> events_;
  Listener listener_;
};

}  // namespace antiphon::train
