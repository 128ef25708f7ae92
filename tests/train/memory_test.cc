// Training's memory does not grow with the data.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/compute_threads.h"
#include "sanitized.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

// MiB of the largest resident set of a process that trains one epoch on a store of `utterances` × 2000 frames.
double PeakMib(const std::filesystem::path& folder, int utterances) {
  const auto store_folder = folder / ("store" + std::to_string(utterances));
  constexpr int kDim = 64, kFrames = 2000;
  {
    data::FrameStoreWriter writer(store_folder, kDim, 4, {.coding = "uint16", .shard_mib = 16});
    Rng rng(1);
    Matrix features(kFrames, kDim);
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Uniform());
    std::vector<int32_t> pdf_ids(kFrames);
    for (int32_t& pdf : pdf_ids) pdf = static_cast<int32_t>(rng.Below(4));
    for (int u = 0; u < utterances; ++u) {
      writer.Add("utt" + std::to_string(u), "spk" + std::to_string(u % 10), features, pdf_ids);
    }
    writer.Finish();
  }
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    SetComputeThreads(1);
    try {
      TrainingTask task =
          SmallTask(std::make_shared<const data::FrameStore>(store_folder), folder / std::to_string(utterances));
      task.network = Config::Parse("[[layer]]\ntype = \"affine\"\n", "network");
      TrainOptions options = SmallOptions();
      options.data.minibatch = 256;
      options.data.left_context = options.data.right_context = 0;
      options.data.shuffle_frames = 1 << 14;
      options.schedule.epochs = 1;
      options.schedule.type = optim::ScheduleType::kConstant;
      options.held_out.most_frames = 1000;
      TrainHere(task, options);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

TEST(MemoryOfTraining, DoesNotGrowWithTheData) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is not ours";
  const testing::TemporaryFolder folder;
  const double once = PeakMib(folder.path(), 80);       // 20 MiB of frames
  const double fourfold = PeakMib(folder.path(), 320);  // 79 MiB
  EXPECT_LT(fourfold, once + 15) << "MiB, where the data have 59 more";
}

}  // namespace
}  // namespace antiphon::train
