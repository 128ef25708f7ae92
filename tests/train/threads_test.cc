// The number of threads has no say in what is learned.
#include <gtest/gtest.h>

#include "base/compute_threads.h"
#include "base/file.h"
#include "temporary_folder.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

struct ThreadsCase {
  const char* name;
  const char* optimizer;
  const char* precision;
  const char* pretraining;
};

class ThreadsTest : public ::testing::TestWithParam<ThreadsCase> {
 protected:
  void TearDown() override { SetComputeThreads(threads_before_); }

  // Wide enough that every parallel loop and product uses its team.
  std::string ModelAfter(int threads) {
    TrainingTask task = SmallTask(store_, folder_ / ("run" + std::to_string(threads)));
    task.network = Config::Parse(
        "[[layer]]\ntype = \"spec-mask\"\nfeature-dim = 40\n"
        "[[layer]]\ntype = \"affine\"\ndim = 320\n[[layer]]\ntype = \"sigmoid\"\n"
        "[[layer]]\ntype = \"affine\"\ndim = 320\n[[layer]]\ntype = \"sigmoid\"\n[[layer]]\ntype = \"batch-norm\"\n"
        "[[layer]]\ntype = \"dropout\"\n[[layer]]\ntype = \"affine\"\ndim = 320\n[[layer]]\ntype = \"p-norm\"\n"
        "dim = 160\n[[layer]]\ntype = \"renorm\"\n[[layer]]\ntype = \"affine\"\n",
        "network");
    task.optimizer = Config::Parse(GetParam().optimizer, "optimizer");
    TrainOptions options = SmallOptions();
    options.data.minibatch = 250;
    options.schedule.epochs = 1;
    options.schedule.learning_rate = 0.1;
    options.average.share = 0.5;
    options.average.every_steps = 1;
    options.precision = GetParam().precision;
    options.pretrain.method = ParseEnum(GetParam().pretraining, kPretrainMethods);
    options.pretrain.epochs_per_layer = 0.5;
    SetComputeThreads(threads);
    TrainHere(task, options);
    return ReadFile(ModelFile(task.folder));
  }

  const int threads_before_ = ComputeThreads();
  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(
      folder_ / "store", {.speakers = 3, .utterances_per_speaker = 5, .frames = 150, .feat_dim = 40, .num_pdfs = 300});
};
INSTANTIATE_TEST_SUITE_P(
    Methods, ThreadsTest,
    ::testing::Values(ThreadsCase{"sgd", "type = \"sgd\"\nmomentum = 0.9\nmax-change = 1.0", "fp32", "discriminative"},
                      ThreadsCase{"sgd_bf16", "type = \"sgd\"\nmomentum = 0.9", "bf16", "none"},
                      ThreadsCase{"adam", "type = \"adam\"", "fp32", "none"},
                      ThreadsCase{"natural_gradient", "type = \"natural-gradient\"", "fp32", "none"},
                      ThreadsCase{"natural_gradient_bf16", "type = \"natural-gradient\"", "bf16", "none"}),
    [](const auto& test) { return test.param.name; });

TEST_P(ThreadsTest, LearnTheSameBits) {
  const std::string one = ModelAfter(1);
  for (const int threads : {2, 3}) EXPECT_TRUE(ModelAfter(threads) == one) << threads << " threads";
}

}  // namespace
}  // namespace antiphon::train
