// Small trainings of a network with a layer "mischief" (trainer_test.cc), which spoils, stops or kills one where a test
// tells it to.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/file.h"
#include "report/metrics.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {

// What the layer is told.
struct Mischief {
  static inline int64_t nan_at_step = -1;
  static inline int times = 0;
  static inline int64_t cancel_at_step = -1;
  static inline int64_t kill_at_step = -1;
  static inline int64_t calls = 0;  // of Forward, also where nothing is trained
  static inline int64_t cancel_at_call = -1;
  static inline int64_t kill_at_call = -1;
  static void Reset() {
    nan_at_step = cancel_at_step = kill_at_step = cancel_at_call = kill_at_call = -1;
    calls = 0;
    times = 0;
    ResetCancel();
  }
};

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Mischief::Reset();
    SetComputeThreads(1);
    store_ = MakeSyntheticStore(folder_ / "store");
  }
  void TearDown() override { Mischief::Reset(); }

  TrainingTask Task(const std::string& run) {
    TrainingTask task = SmallTask(store_, folder_ / run);
    task.network = Config::Parse("[[layer]]\ntype = \"mischief\"\n" + task.network.ToToml(), "network");
    return task;
  }
  std::string ModelBytes(const std::string& run) { return ReadFile(ModelFile(folder_ / run)); }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

// Metrics without what depends on the clock.
inline std::vector<std::string> TimelessMetrics(const std::filesystem::path& run) {
  std::vector<std::string> lines;
  for (const report::MetricsRecord& record : report::ReadMetrics(run / "metrics.jsonl")) {
    report::MetricsRecord timeless;
    for (const auto& [name, value] : record.fields()) {
      if (name.find("second") == std::string::npos && name.find("share") == std::string::npos)
        timeless.Set(name, value);
    }
    lines.push_back(timeless.ToJson());
  }
  return lines;
}

}  // namespace antiphon::train
