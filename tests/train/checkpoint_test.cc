// Checkpoints of several workers: one of them writes what is common, all their own, behind the arithmetic; a step
// counts when all have written it together.
#include "train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <set>
#include <sstream>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "temporary_folder.h"
#include "train/background_write.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWorldSize = 3;

struct Method {
  const char* name;
  const char* parallel;
  const char* optimizer;
};

TrainOptions CheckpointedOptions() {
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 2;
  options.average.share = 0.5;
  options.average.halvings = 1;
  options.checkpoint.steps = 5;
  options.checkpoint.keep = 1000;
  return options;
}

class Checkpoints : public ::testing::Test {
 protected:
  // `own_folders`: each rank's files lie where the others do not see them, as on machines without a common disk.
  uint64_t Train(const Method& method, const std::string& run, bool resume = false, bool own_folders = false) {
    TrainOptions options = CheckpointedOptions();
    if (std::string(method.name) == "newbob") {
      options.schedule.type = optim::ScheduleType::kNewbob;
      options.average.share = 0;
    }
    uint64_t hash = 0;
    comm::RunRanks(kWorldSize, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      TrainingTask task = SmallTask(store_, folder_ / run);
      if (own_folders) task.folder /= std::to_string(comm.rank());
      task.parallel = Config::Parse(method.parallel, "parallel");
      task.optimizer = Config::Parse(method.optimizer, "optimizer");
      const TrainingSummary summary = Trainer(task, options, comm).Run(resume);
      if (comm.rank() == 0) hash = summary.model_hash;
    });
    return hash;
  }

  fs::path File(const std::string& run, int64_t step, int rank) const {
    return CheckpointFolder(CheckpointPath(folder_ / run), rank, kWorldSize, 1).File(step);
  }
  std::set<int64_t> Steps(const std::string& run) const {
    std::set<int64_t> steps;
    for (const auto& entry : fs::directory_iterator(CheckpointPath(folder_ / run))) {
      steps.insert(CheckpointFolder::StepOf(entry.path()));
    }
    return steps;
  }
  // As if the run had been killed just after `step` was written.
  void CopyUpTo(int64_t step, const std::string& from, const std::string& to) {
    fs::remove_all(folder_ / to);
    fs::copy(folder_ / from, folder_ / to, fs::copy_options::recursive);
    for (const int64_t later : Steps(to)) {
      for (int r = 0; later > step && r < kWorldSize; ++r) fs::remove(File(to, later, r));
    }
  }
  // What the run says when it goes on, and the hash that it ends with.
  std::pair<std::string, uint64_t> Resume(const Method& method, const std::string& run) {
    std::ostringstream text;
    log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    const uint64_t hash = Train(method, run, true);
    log::SetLogger(std::make_shared<spdlog::logger>("silent"));
    return {text.str(), hash};
  }

  const testing::TemporaryFolder folder_;
  const std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
};

constexpr Method kSsgd = {"ssgd", "method = \"ssgd\"\n", "type = \"sgd\"\nmomentum = 0.5\n"};
constexpr const char* kMomentum = "type = \"sgd\"\nmomentum = 0.5\n";

class CheckpointsOf : public Checkpoints, public ::testing::WithParamInterface<Method> {};
INSTANTIATE_TEST_SUITE_P(
    Methods, CheckpointsOf,
    ::testing::Values(kSsgd, Method{"ssgd_1bit", "method = \"ssgd\"\ncodec = {type = \"one-bit\"}\n", kMomentum},
                      Method{"ssgd_natural", "method = \"ssgd\"\n", "type = \"natural-gradient\"\n"},
                      Method{"newbob", "method = \"ssgd\"\n", "type = \"adam\"\n"},
                      Method{"averaging", "method = \"averaging\"\nsync-period = 4\n", kMomentum},
                      Method{"bmuf", "method = \"bmuf\"\nsync-period = 5\n", kMomentum},
                      Method{"bmuf_warm", "method = \"bmuf\"\nsync-period = 4\nwarm-start-epochs = 1\n", kMomentum},
                      Method{"easgd", "method = \"easgd\"\nsync-period = 4\n", kMomentum},
                      Method{"admm", "method = \"admm\"\nsync-period = 4\n", kMomentum}),
    [](const auto& test) { return test.param.name; });

TEST_P(CheckpointsOf, GiveTheSameBitsFromEveryStep) {
  const uint64_t whole = Train(GetParam(), "whole");
  const std::set<int64_t> steps = Steps("whole");
  ASSERT_GE(steps.size(), 5U);
  bool shared = false;
  for (const int64_t step : steps) {
    shared = shared || !CommonNames(SafetensorsReader(File("whole", step, 1))).empty();
    EXPECT_TRUE(CommonNames(SafetensorsReader(File("whole", step, 0))).empty());
    CopyUpTo(step, "whole", "broken");
    const auto [said, hash] = Resume(GetParam(), "broken");
    EXPECT_THAT(said, HasSubstr(fmt::format("going on from step {} ", step)));
    EXPECT_EQ(hash, whole) << "from step " << step;
  }
  EXPECT_TRUE(shared) << "every rank wrote everything";
}

// Of replicas that are equal, the others write what is their own: batch-norm's statistics, counts, residuals.
TEST_F(Checkpoints, AreWrittenOnceForAll) {
  Train(kSsgd, "run");
  const std::set<int64_t> steps = Steps("run");
  for (const int64_t step : steps) {
    const SafetensorsReader first(File("run", step, 0)), second(File("run", step, 1));
    const std::vector<std::string> names = second.Names();
    for (const char* common : {"network.affine1.weight", "average.affine1.weight", "optimizervelocity"}) {
      EXPECT_THAT(names, Not(Contains(common)));
      if (step == *steps.rbegin()) {
        EXPECT_TRUE(first.Has(common)) << common;
      }
    }
  }
}

TEST_F(Checkpoints, CountWhenAllRanksHaveThemAndWroteThemTogether) {
  const uint64_t whole = Train(kSsgd, "whole");
  Train(kSsgd, "other");
  const std::set<int64_t> steps = Steps("whole");
  const int64_t newest = *std::next(steps.begin(), 3), before = *std::next(steps.begin(), 2);
  const std::vector<std::pair<const char*, std::function<void()>>> faults = {
      {"rank 1 wrote nothing", [&] { fs::remove(File("broken", newest, 1)); }},
      {"rank 0 wrote nothing", [&] { fs::remove(File("broken", newest, 0)); }},
      {"rank 2 is cut", [&] { fs::resize_file(File("broken", newest, 2), 200); }},
      {"rank 0 is cut",
       [&] { fs::resize_file(File("broken", newest, 0), fs::file_size(File("broken", newest, 0)) - 1); }},
      {"rank 1's is of another writing",
       [&] {
         fs::copy_file(File("other", newest, 1), File("broken", newest, 1), fs::copy_options::overwrite_existing);
       }},
      {"rank 0's is of another writing",
       [&] {
         fs::copy_file(File("other", newest, 0), File("broken", newest, 0), fs::copy_options::overwrite_existing);
       }},
  };
  for (const auto& [name, harm] : faults) {
    SCOPED_TRACE(name);
    CopyUpTo(newest, "whole", "broken");
    harm();
    const auto [said, hash] = Resume(kSsgd, "broken");
    EXPECT_THAT(said, HasSubstr(fmt::format("going on from step {} ", before)));
    EXPECT_EQ(hash, whole);
  }
}

TEST_F(Checkpoints, AreSentToRanksThatDoNotSeeTheFirstOnesFolder) {
  const uint64_t whole = Train(kSsgd, "apart", false, true);
  EXPECT_EQ(whole, Train(kSsgd, "together"));
  const std::set<int64_t> steps = Steps("together");
  const int64_t kept = *std::next(steps.begin(), 3);
  for (const int64_t step : steps) {
    for (int r = 0; step > kept && r < kWorldSize; ++r) {
      fs::remove(CheckpointFolder(CheckpointPath(folder_ / "apart" / std::to_string(r)), r, kWorldSize, 1).File(step));
    }
  }
  EXPECT_EQ(Train(kSsgd, "apart", true, true), whole);
}

// Earlier versions wrote everything on every rank, and no number of a writing.
TEST_F(Checkpoints, OfEarlierVersionsGoOn) {
  const uint64_t whole = Train(kSsgd, "whole");
  const std::set<int64_t> steps = Steps("whole");
  const int64_t step = *std::next(steps.begin(), 3);
  CopyUpTo(step, "whole", "old");
  const auto files = CheckpointFolder(CheckpointPath(folder_ / "whole"), 0, kWorldSize, 1).OpenAll(step, kWorldSize);
  for (int r = 0; r < kWorldSize; ++r) {
    const SafetensorsReader& file = files[static_cast<size_t>(r)];
    SafetensorsWriter writer;
    for (const auto& [key, value] : file.metadata()) {
      if (key == "experiment") {
        EXPECT_THAT(value, Not(HasSubstr("background"))) << "an option that they did not know";
      }
      if (key != "writing" && key != "common" && key != "antiphon_checksum") writer.SetMetadata(key, value);
    }
    for (const std::string& name : file.Names()) {
      const TensorView& tensor = file.Tensor(name);
      writer.Add(name, tensor.type, tensor.shape, tensor.data);
    }
    writer.Write(File("old", step, r));
  }
  const auto [said, hash] = Resume(kSsgd, "old");
  EXPECT_THAT(said, HasSubstr(fmt::format("going on from step {} ", step)));
  EXPECT_EQ(hash, whole);
}

TEST(BackgroundWrite, KeepsItsErrorForTheOneWhoFinishes) {
  BackgroundWrite write;
  write.Finish();
  write.Begin([] { throw IoError("the disk is full"); });
  write.Wait();
  EXPECT_TRUE(write.under_way());
  EXPECT_THROW(write.Finish(), IoError);
  EXPECT_FALSE(write.under_way());
  write.Finish();
}

TEST(BackgroundWrite, IsWaitedForAtTheEnd) {
  bool written = false;
  {
    BackgroundWrite write;
    write.Begin([&] { written = true; });
  }
  EXPECT_TRUE(written);
}

// What is viewed may change while it is written.
TEST(SafetensorsWriter, OwnsWhatItWrites) {
  const testing::TemporaryFolder folder;
  Matrix values(2, 2);
  values(1, 1) = 5;
  SafetensorsWriter writer;
  writer.AddView("values", values);
  writer.Own();
  values(1, 1) = 6;
  writer.Write(folder / "x.safetensors");
  EXPECT_EQ(SafetensorsReader(folder / "x.safetensors").ReadMatrix("values")(1, 1), 5);
}

}  // namespace
}  // namespace antiphon::train
