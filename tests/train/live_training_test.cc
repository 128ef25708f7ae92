// Training on a store whose features are made while it reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finally.h"
#include "comm/thread_world.h"
#include "data/archive.h"
#include "data/feature_extraction.h"
#include "fake_program.h"
#include "feat/audio.h"
#include "feat/foreign_sound.h"
#include "feat/front_end.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/data_share.h"
#include "train/experiment.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class LiveTrainingTest : public ::testing::Test {
 protected:
  // Tones that rise and fall, aligned by their height.
  LiveTrainingTest() {
    constexpr int kRate = 8000;
    std::string wav, utt2spk;
    data::TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark");
    auto front_end = feat::FrontEndOptions::Standard("fbank", kRate);
    front_end.mel_bins = 12;
    for (int u = 0; u < 24; ++u) {
      const std::string id = fmt::format("spk{}-utt{}", u / 4, u % 4);
      feat::Waveform wave{std::vector<float>(kRate * 7 / 10), kRate};
      Rng rng(static_cast<uint64_t>(u));
      double phase = 0, hz = 500;
      std::vector<double> height;
      for (float& x : wave.samples) {
        hz = std::clamp(hz + 10 * rng.Normal(), 200.0, 3000.0);
        height.push_back(hz);
        phase += 2 * 3.14159265 * hz / kRate;
        x = static_cast<float>(3000 * std::sin(phase) + 100 * rng.Normal());
      }
      feat::WriteWav(folder_ / (id + ".wav"), wave);
      wav += id + " " + (folder_ / (id + ".wav")).string() + "\n";
      utt2spk += fmt::format("{} spk{}\n", id, u / 4);
      std::vector<int32_t> ids;
      for (int64_t t = 0; t < feat::FrontEnd(front_end).NumFrames(std::ssize(height)); ++t) {
        ids.push_back(static_cast<int32_t>(height[static_cast<size_t>(80 * t + 100)] / 600));
      }
      pdfs.Write(id, ids);
    }
    pdfs.Close();
    fs::create_directories(folder_ / "data");
    WriteFileAtomically(folder_ / "data/wav.scp", wav);
    WriteFileAtomically(folder_ / "data/utt2spk", utt2spk);
    data::FeatureExtractionOptions features;
    features.front_end = front_end;
    features.coding = "plain";
    data::ExtractFeatures(data::DataDir::Load(folder_ / "data"), features, folder_ / "feats", 1);
    options_ = SmallOptions();
    options_.data.minibatch = 48;
    options_.data.shuffle_frames = 400;
    options_.data.block_frames = 1 << 20;
  }

  std::shared_ptr<const data::FrameStore> Store(bool live) {
    data::BuildFrameStoreOptions build;
    build.pdf_alignment = (folder_ / "pdf.scp").string();
    if (live) {
      build.live.data = (folder_ / "data").string();
      build.live.front_end = (folder_ / "feats/front_end.toml").string();
    } else {
      build.input.features = (folder_ / "feats/feats.scp").string();
      build.input.cmvn = (folder_ / "feats/cmvn.scp").string();
      build.input.utt2spk = (folder_ / "data/utt2spk").string();
    }
    const fs::path place = folder_ / (live ? "live" : "made");
    data::BuildFrameStore(build, place);
    return std::make_shared<const data::FrameStore>(place);
  }

  TrainingTask Task(bool live, const std::string& run) { return SmallTask(Store(live), folder_ / run); }
  std::string Model(const std::string& run) const { return ReadFile(folder_ / run / "model.safetensors"); }
  void Vary() {
    options_.data.augment.noise_probability = 0.8;
    options_.data.augment.reverb_probability = 0.4;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  TrainOptions options_;
};

// The models differ in the fingerprint of what they were trained on alone.
std::vector<float> Weights(const fs::path& model) {
  const nn::Model loaded = nn::Model::Load(model);
  const auto values = loaded.network.values();
  return {values.begin(), values.end()};
}

TEST_F(LiveTrainingTest, GivesTheModelOfAStoreThatWasMadeBeforehand) {
  TrainHere(Task(false, "made-run"), options_);
  TrainHere(Task(true, "live-run"), options_);
  EXPECT_EQ(Weights(folder_ / "live-run/model.safetensors"), Weights(folder_ / "made-run/model.safetensors"));
}

TEST_F(LiveTrainingTest, GoesOnToTheBitWithAnyNumberOfThreads) {
  Vary();
  const TrainingSummary whole = TrainHere(Task(true, "whole"), options_);
  EXPECT_LT(whole.held_out_loss, 1.5);
  options_.checkpoint.steps = 7;
  options_.checkpoint.keep = 1000;
  options_.data.feature_threads = 0;
  const TrainingTask task = Task(true, "broken");
  TrainHere(task, options_);
  EXPECT_EQ(Model("broken"), Model("whole"));
  EXPECT_GT(BreakOffAfter(40, task.folder), 0);
  fs::remove(task.folder / "model.safetensors");
  options_.data.feature_threads = 3;
  TrainHere(task, options_, /*resume=*/true);
  EXPECT_EQ(Model("broken"), Model("whole"));
  // Other draws, another experiment.
  options_.data.augment.snr_low_db = 3;
  EXPECT_THROW(TrainHere(task, options_, /*resume=*/true), Error);
}

TEST_F(LiveTrainingTest, WorkersReadSharesOfIt) {
  Vary();
  TrainingTask task = Task(true, "workers");
  task.parallel = Config::Parse("method = \"averaging\"\nworkers = 2\nsync-period = 4\n", "parallel");
  EXPECT_EQ(ChooseDistribution(task, options_, 1), Distribution::kPool);
  EXPECT_EQ(ChooseDistribution(task, options_, 2), Distribution::kShares);
  const auto run = [&](const std::string& folder) {
    task.folder = folder_ / folder;
    comm::RunRanks(2, [&](comm::Communicator& comm) { Trainer(task, options_, comm).Run(false); });
  };
  run("workers");
  options_.data.feature_threads = 0;
  run("again");
  EXPECT_EQ(Model("workers"), Model("again"));
  task.parallel = Config::Parse("method = \"asgd\"\nworkers = 2\n", "parallel");
  EXPECT_EQ(ChooseDistribution(task, options_, 2), Distribution::kPool);
  task.store = Store(false);
  task.parallel = Config::Parse("method = \"averaging\"\nworkers = 2\n", "parallel");
  EXPECT_EQ(ChooseDistribution(task, options_, 2), Distribution::kPool);
}

TEST_F(LiveTrainingTest, StopsAtARecordingThatIsGone) {
  const TrainingTask task = Task(true, "run");
  fs::remove(folder_ / "spk3-utt2.wav");
  try {
    TrainHere(task, options_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("spk3-utt2.wav"));
    EXPECT_THAT(e.what(), HasSubstr("utterance 'spk3-utt2'"));
  }
}

// A single worker of this method goes by rounds, too: what it has learned in one is in no checkpoint yet.
TEST_F(LiveTrainingTest, ARequestToStopWithinARoundPromisesNoSaving) {
  if (!feat::ForeignSoundIsRead()) GTEST_SKIP() << "ffmpeg is not installed";
  std::string scp = ReadFile(folder_ / "data/wav.scp");
  for (int u = 0; u < 8; ++u) {
    const std::string name = fmt::format("spk{}-utt{}.", u / 4, u % 4);
    const std::string from = folder_ / (name + "wav"), to = folder_ / (name + "m4a");
    ASSERT_EQ(RunProgram({"ffmpeg", "-nostdin", "-v", "error", "-i", from, "-c:a", "alac", to}), 0);
    scp.replace(scp.find(name) + name.size(), 3, "m4a");
  }
  WriteFileAtomically(folder_ / "data/wav.scp", scp);
  TrainingTask task = Task(true, "run");
  task.parallel = Config::Parse("method = \"asgd\"\n", "parallel");
  fs::create_directories(task.folder);
  options_.data.distribution = Distribution::kPool;
  options_.data.shuffle_frames = 1 << 20;  // each minibatch has frames of nearly all recordings
  options_.data.feature_threads = 0;
  const auto comm = comm::MakeSelfCommunicator();
  parallel::SurvivingCommunicator ranks(*comm);
  Worker worker(task, options_, ranks);
  worker.StartAnew();
  worker.loader().StartStrategy();
  const ::antiphon::testing::FakeProgram stopped(folder_ / "bin", "ffmpeg", "exit 255");
  const Finally reset([] { ResetCancel(); });
  RequestCancel();
  try {
    worker.RunEpoch();
    FAIL() << "it went on";
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("in the middle of a round, where nothing can be saved"));
  }
}

// Checkpoints of earlier versions fit runs that vary nothing; what varies others is part of the experiment.
TEST_F(LiveTrainingTest, VariationIsPartOfTheExperiment) {
  const TrainingTask task = Task(true, "run");
  const nn::Network network(task.network, 36, 8, 1);
  options_.data.feature_threads = 7;
  const std::string plain = ExperimentText(task, options_, network, "");
  EXPECT_THAT(plain, Not(HasSubstr("augment")));
  EXPECT_THAT(plain, Not(HasSubstr("noise-kinds")));
  EXPECT_THAT(plain, Not(HasSubstr("fetch-")));
  EXPECT_THAT(plain, Not(HasSubstr("feature-threads")));
  EXPECT_THAT(plain, HasSubstr("shuffle-frames"));
  EXPECT_THAT(plain, HasSubstr("[optimizer]"));
  options_.data.augment.noise_files = {(folder_ / "spk0-utt0.wav").string()};
  options_.data.augment.noise_probability = 0.5;
  const std::string varied = ExperimentText(task, options_, network, "");
  EXPECT_THAT(varied, HasSubstr("noise-probability"));
  fs::copy_file(folder_ / "spk0-utt1.wav", folder_ / "spk0-utt0.wav", fs::copy_options::overwrite_existing);
  EXPECT_NE(ExperimentText(task, options_, network, ""), varied);
}

}  // namespace
}  // namespace antiphon::train
