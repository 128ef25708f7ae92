#include "train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace antiphon::train {

namespace {

// What of a file of metrics or events can be continued: all `bytes` of it, or nothing, if it is not what the checkpoint
// remembers. Then it is set aside.
uint64_t Continued(const std::filesystem::path& path, uint64_t bytes, bool (*sound)(const std::filesystem::path&)) {
  if (bytes == 0) return 0;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size >= bytes && sound(path)) return bytes;
  if (error) {
    log::Warn("'{}' is missing: it begins anew; what stood in it is lost, the checkpoint is not", path.string());
    return 0;
  }
  const std::string aside = path.string() + ".damaged";
  std::filesystem::rename(path, aside, error);
  log::Warn(
      "'{}' is not what the checkpoint remembers (damaged, or another run wrote to it): it is set aside as '{}', "
      "and begins anew",
      path.string(), aside);
  return 0;
}

bool CanBeRead(const std::filesystem::path& path) {
  try {
    report::ReadMetrics(path);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// A rank that writes is lost at most one vote behind the others, which have few records before the next one.
constexpr size_t kMostUnwritten = 4;

// Times differ by rank; steps that are taken again after a fall-back have other rates.
bool TellTheSame(const report::MetricsRecord& a, const report::MetricsRecord& b) {
  for (const char* name : {"kind", "what", "message"}) {
    if (a.Text(name) != b.Text(name)) return false;
  }
  for (const char* name : {"step", "epoch", "learning_rate"}) {
    if (a.Number(name) != b.Number(name)) return false;
  }
  return true;
}

}  // namespace

void RunLog::Open(const Position& position) {
  const std::filesystem::path metrics = folder_ / "metrics.jsonl";
  const std::filesystem::path events = folder_ / report::TensorBoardWriter::kFileName;
  Close();
  metrics_ = std::make_unique<report::MetricsWriter>(metrics, Continued(metrics, position.metrics_bytes, CanBeRead));
  const auto any = [](const std::filesystem::path&) { return true; };
  events_ = std::make_unique<report::TensorBoardWriter>(events, Continued(events, position.events_bytes, any));
}

void RunLog::TakeOver(Position& position) {
  const std::filesystem::path metrics = folder_ / "metrics.jsonl";
  const std::filesystem::path events = folder_ / report::TensorBoardWriter::kFileName;
  // The last records may be cut off.
  position.events_bytes = std::filesystem::exists(events) ? report::BytesOfWholeEvents(events) : 0;
  const bool there = std::filesystem::exists(metrics);
  position.metrics_bytes = there ? report::BytesOfWholeRecords(metrics) : 0;
  const auto written =
      there && CanBeRead(metrics) ? report::ReadMetrics(metrics) : std::vector<report::MetricsRecord>();
  Open(position);
  for (const report::MetricsRecord& record : std::exchange(unwritten_, {})) {
    const auto same = [&](const report::MetricsRecord& r) { return TellTheSame(r, record); };
    if (std::none_of(written.rbegin(), written.rend(), same)) Write(record);
  }
}

void RunLog::Close() {
  metrics_.reset();
  events_.reset();
}

void RunLog::Write(const report::MetricsRecord& record) {
  if (!metrics_) {
    unwritten_.push_back(record);
    if (unwritten_.size() > kMostUnwritten) unwritten_.pop_front();
    return;
  }
  metrics_->Write(record);
  if (listener_) listener_(record.ToJson());
}

void RunLog::Scalar(const std::string& tag, int64_t step, double value) {
  if (events_) events_->Scalar(tag, step, value);
}

void RunLog::Text(const std::string& tag, const std::string& text) {
  if (events_) events_->Text(tag, 0, text);
}

void RunLog::Event(const Position& position, const std::string& what, const std::string& message) {
  if (metrics_) log::Warn("{}", message);
  Write(report::MetricsRecord("event")
            .Set("what", what)
            .Set("epoch", position.epoch)
            .Set("step", position.step)
            .Set("message", message));
}

void RunLog::Loss(const Position& position, const std::vector<int>& workers, int left, int64_t given_back) {
  const std::string message = fmt::format(
      "epoch {}, step {}: worker {} was lost; {} go on, and {} minibatch(es) that were its own came back for them",
      position.epoch + 1, position.step, fmt::join(workers, ", "), left, given_back);
  if (metrics_) log::Warn("{}", message);
  Write(report::MetricsRecord("event")
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
