// A run's log when whoever writes it is lost: another one, which has kept silent, goes on with it.
#include "train/run_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace antiphon::train {
namespace {

// `seconds` differ from rank to rank.
report::MetricsRecord EpochRecord(int epoch, double seconds) {
  return report::MetricsRecord("epoch")
      .Set("epoch", epoch)
      .Set("step", 10 * epoch)
      .Set("learning_rate", 0.5)
      .Set("arithmetic_seconds", seconds);
}

class LogTakenOver : public ::testing::Test {
 protected:
  std::vector<std::string> Written() const {
    std::vector<std::string> written;
    for (const report::MetricsRecord& record : report::ReadMetrics(folder_ / "metrics.jsonl")) {
      written.push_back(record.kind() + " " + std::to_string(static_cast<int>(*record.Number("epoch"))));
    }
    return written;
  }

  testing::TemporaryFolder folder_;
  int heard_ = 0;
  RunLog next_{folder_.path(), [this](const std::string&) { ++heard_; }};
  Position position_;
};

using Kinds = std::vector<std::string>;

TEST_F(LogTakenOver, HasWhatTheLostOneCouldNotWriteAndNothingTwice) {
  {
    RunLog first(folder_.path());
    first.Open(position_);
    for (const int epoch : {1, 2}) first.Write(EpochRecord(epoch, 1.5));
  }
  for (const int epoch : {1, 2, 3}) next_.Write(EpochRecord(epoch, 2.5));
  EXPECT_EQ(Written(), (Kinds{"epoch 1", "epoch 2"})) << "it keeps silent";
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << R"({"kind":"epoch","ep)";
  next_.TakeOver(position_);
  EXPECT_EQ(Written(), (Kinds{"epoch 1", "epoch 2", "epoch 3"}));
  EXPECT_EQ(heard_, 1);
  next_.Write(EpochRecord(4, 2.5));
  EXPECT_EQ(Written(), (Kinds{"epoch 1", "epoch 2", "epoch 3", "epoch 4"}));
  next_.NotePosition(position_);
  EXPECT_EQ(position_.metrics_bytes, std::filesystem::file_size(folder_ / "metrics.jsonl"));
}

TEST_F(LogTakenOver, BeginsIfNothingWasWritten) {
  next_.Write(EpochRecord(1, 2.5));
  next_.TakeOver(position_);
  EXPECT_EQ(Written(), Kinds{"epoch 1"});
  EXPECT_EQ(heard_, 1);
}

}  // namespace
}  // namespace antiphon::train
