#include "train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace antiphon::train {

RunLog::RunLog(const std::filesystem::path& folder, bool writes, uint64_t metrics_bytes, uint64_t events_bytes) {
  if (!writes) return;
  metrics_ = std::make_unique<report::MetricsWriter>(folder / "metrics.jsonl", metrics_bytes);
  events_ = std::make_unique<report::TensorBoardWriter>(folder / report::TensorBoardWriter::kFileName, events_bytes);
}

void RunLog::Write(const report::MetricsRecord& record) {
  if (metrics_) metrics_->Write(record);
}

void RunLog::Scalar(const std::string& tag, int64_t step, double value) {
  if (events_) events_->Scalar(tag, step, value);
}

void RunLog::Text(const std::string& tag, const std::string& text) {
  if (events_) events_->Text(tag, 0, text);
}

void RunLog::Event(const Position& position, const std::string& what, const std::string& message) {
  if (!metrics_) return;
  log::Warn("{}", message);
  metrics_->Write(report::MetricsRecord("event")
                      .Set("what", what)
                      .Set("epoch", position.epoch)
                      .Set("step", position.step)
                      .Set("message", message));
}

void RunLog::Loss(const Position& position, const std::vector<int>& workers, int left, int64_t given_back) {
  if (!metrics_) return;
  const std::string message = fmt::format(
      "epoch {}, step {}: worker {} was lost; {} go on, and {} minibatch(es) that were its own came back for them",
      position.epoch + 1, position.step, fmt::join(workers, ", "), left, given_back);
  log::Warn("{}", message);
  metrics_->Write(report::MetricsRecord("event")
                      .Set("what", "loss")
                      .Set("epoch", position.epoch)
                      .Set("step", position.step)
                      .Set("workers_lost", fmt::format("{}", fmt::join(workers, " ")))
                      .Set("workers_left", left)
                      .Set("given_back", given_back)
                      .Set("message", message));
}

void RunLog::NotePosition(Position& position) const {
  if (metrics_) position.metrics_bytes = metrics_->position();
  if (events_) position.events_bytes = events_->position();
}

}  // namespace antiphon::train
