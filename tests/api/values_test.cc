// Tables, front end, frame store and model files by the public headers, against what the library does inside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "antiphon/error.h"
#include "antiphon/frame_store.h"
#include "antiphon/front_end.h"
#include "antiphon/model_file.h"
#include "antiphon/tables.h"
#include "antiphon/trainer.h"
#include "api/error_of.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/archive.h"
#include "data/frame_store.h"
#include "feat/front_end.h"
#include "temporary_folder.h"
#include "two_words.h"
#include "without_threads.h"

namespace antiphon {
namespace {

using antiphon::testing::TemporaryFolder;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;

TEST(PublicTables, EveryKindGoesThereAndBack) {
  TemporaryFolder folder;
  for (const bool text : {false, true}) {
    const std::string ark = (folder / (text ? "text" : "binary")).string();
    TableWriter matrices(ark + "_m.ark", {.text = text});
    matrices.WriteMatrix("a", std::vector<float>{1, 2, 3, 4, 5, 6}, 3);
    matrices.WriteMatrix("b", std::vector<float>{7, 8, 9}, 3);
    matrices.Close();
    TableReader read(ark + "_m.scp");
    EXPECT_EQ(read.kind(), TableKind::kMatrix);
    ASSERT_TRUE(read.Next());
    EXPECT_EQ(read.key(), "a");
    EXPECT_EQ(read.value().rows, 2);
    EXPECT_EQ(read.value().cols, 3);
    EXPECT_THAT(read.value().values, ElementsAre(1, 2, 3, 4, 5, 6));
    ASSERT_TRUE(read.Next());
    EXPECT_FALSE(read.Next());

    TableWriter vectors(ark + "_v.ark", {.text = text});
    vectors.WriteVector("a", std::vector<float>{0.5F, -2});
    vectors.Close();
    TableReader vector("ark:" + ark + "_v.ark");
    ASSERT_TRUE(vector.Next());
    EXPECT_EQ(vector.value().kind, TableKind::kVector);
    EXPECT_THAT(vector.value().values, ElementsAre(0.5F, -2));

    TableWriter integers(ark + "_i.ark", {.text = text});
    integers.WriteIntegers("a", std::vector<int32_t>{3, -1});
    integers.Close();
    TableReader integer(ark + "_i.ark");
    ASSERT_TRUE(integer.Next());
    EXPECT_EQ(integer.kind(), TableKind::kIntegers);
    EXPECT_THAT(integer.value().integers, ElementsAre(3, -1));
  }
}

TEST(PublicTables, RefusesWhatIsNoTable) {
  TemporaryFolder folder;
  TableWriter writer((folder / "x.ark").string());
  writer.WriteVector("a", std::vector<float>{1});
  EXPECT_THAT(ErrorOf([&] { writer.WriteIntegers("b", {}); }).second, HasSubstr("another kind"));
  EXPECT_THAT(ErrorOf([&] { writer.WriteMatrix("b", std::vector<float>(5), 2); }).second, HasSubstr("rows of 2"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.ark"));
  WriteFileAtomically(folder / "empty.ark", "");
  TableReader empty((folder / "empty.ark").string());
  EXPECT_FALSE(empty.Next());
  EXPECT_NE(ErrorOf([&] { TableReader((folder / "none.ark").string()); }).second, "no error");
}

TEST(PublicFrontEnd, GivesTheFramesOfTheLibrary) {
  Rng rng(3);
  std::vector<float> samples(8000), wide;
  for (float& sample : samples) sample = static_cast<float>(0.1 * rng.Normal());
  for (const float sample : samples) wide.push_back(sample * 32768);
  const FrontEnd front_end("kind = 'fbank'\nsample-rate = 8000\nmel-bins = 20\n");
  const feat::FrontEnd inside({.kind = "fbank", .sample_rate_hz = 8000, .mel_bins = 20});
  const Matrix expected = inside.Compute(wide, feat::UtteranceSeed("utt1"));
  const std::vector<float> frames = front_end.Compute(samples, 8000, "utt1");
  ASSERT_EQ(std::ssize(frames), expected.size());
  EXPECT_TRUE(std::equal(frames.begin(), frames.end(), expected.data()));
  EXPECT_EQ(FrontEnd(front_end.options()).Compute(samples, 8000, "utt1"), frames);
  EXPECT_NE(front_end.Compute(samples, 8000, "utt2"), frames);  // dither
  EXPECT_EQ(front_end.dim(), 20);
  // At twice the rate there are as many frames as at the half.
  EXPECT_EQ(front_end.Compute(samples, 4000).size() / 20, 2 * (frames.size() / 20) + 2);

  EXPECT_EQ(FrontEnd::Standard("plp").dim(), 13);
  EXPECT_EQ(ErrorOf([] { FrontEnd::Standard("pls"); }).first, ErrorKind::kUsage);
  EXPECT_EQ(ErrorOf([] { FrontEnd("mel-bin = 3"); }).first, ErrorKind::kUsage);
  samples[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ErrorOf([&] { front_end.Compute(samples, 8000); }).first, ErrorKind::kInput);
}

constexpr int kDim = 3;

void WriteStore(const std::filesystem::path& folder) {
  data::FrameStoreWriter writer(folder, kDim, 4);
  for (int u = 0; u < 5; ++u) {
    Matrix frames(20 + u, kDim);
    std::vector<int32_t> labels;
    for (int64_t t = 0; t < frames.rows(); ++t) {
      for (int c = 0; c < kDim; ++c) frames(t, c) = static_cast<float>(t == 0 ? 0 : t == 1 ? 255 : (7 * t + c) % 255);
      labels.push_back(static_cast<int32_t>(t % 4));
    }
    writer.Add("utt" + std::to_string(u), "s", frames, labels);
  }
  writer.Finish();
}

TEST(PublicFrameStore, AnEpochHasEveryFrameOnceWithItsContext) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  const FrameStore store((folder / "store").string());
  EXPECT_EQ(store.feature_dim(), kDim);
  EXPECT_EQ(store.num_labels(), 4);
  ASSERT_EQ(store.utterances().size(), 5U);
  EXPECT_EQ(store.utterances()[2].num_frames, 22);
  std::vector<int64_t> first = {0};
  for (const auto& utterance : store.utterances()) first.push_back(first.back() + utterance.num_frames);

  Minibatches epoch(store, {.minibatch = 16, .left_context = 1, .right_context = 2, .prefetch = 3}, 1);
  EXPECT_EQ(epoch.size(), (store.num_frames() + 15) / 16);
  std::set<int64_t> seen;
  std::vector<Minibatch> kept;  // each has memory of its own
  while (auto minibatch = epoch.Next()) kept.push_back(std::move(*minibatch));
  for (Minibatch& minibatch : kept) {
    EXPECT_EQ(minibatch.dim(), 4 * kDim);
    for (size_t row = 0; row < minibatch.frame_ids().size(); ++row) {
      const int64_t id = minibatch.frame_ids()[row];
      seen.insert(id);
      const auto u = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), id) - first.begin()) - 1;
      const std::vector<float> features = store.Features(u);
      const int64_t t = id - first[u], last = store.utterances()[u].num_frames - 1;
      EXPECT_EQ(minibatch.labels()[row], store.Labels(u)[static_cast<size_t>(t)]);
      for (int64_t k = -1; k <= 2; ++k) {
        const int64_t from = std::clamp(t + k, int64_t{0}, last) * kDim;
        const float* const to = minibatch.features().data() + row * 4 * kDim + (k + 1) * kDim;
        EXPECT_TRUE(std::equal(to, to + kDim, features.data() + from)) << id << " " << k;
      }
    }
  }
  EXPECT_EQ(std::ssize(seen), store.num_frames());
  EXPECT_EQ(ErrorOf([&] { Minibatches(store, {.minibatch = 0}, 0); }).first, ErrorKind::kUsage);
  EXPECT_THAT(ErrorOf([&] { static_cast<void>(store.Features(5)); }).second, HasSubstr("there are 5"));
}

TEST(PublicFrameStore, AnEpochIsWholeWithoutThreads) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  const FrameStore store((folder / "store").string());
  const auto frames_of = [](Minibatches& epoch) {
    std::vector<int64_t> ids;
    while (epoch.WaitForNext(std::chrono::minutes(1))) {
      const auto minibatch = epoch.Next();
      if (!minibatch) break;
      ids.insert(ids.end(), minibatch->frame_ids().begin(), minibatch->frame_ids().end());
    }
    return ids;
  };
  const MinibatchSettings settings{.minibatch = 16, .prefetch = 3};
  Minibatches epoch(store, settings, 1);
  const std::vector<int64_t> expected = frames_of(epoch);
  EXPECT_EQ(std::ssize(expected), store.num_frames());
  const testing::WithoutThreads without;
  Minibatches alone(store, settings, 1);
  EXPECT_EQ(frames_of(alone), expected);
}

TEST(PublicModelFile, IsTheSameFileAgain) {
  const testing::TwoWords system(/*with_transform=*/true);
  const std::string path = (system.folder / "net.safetensors").string();
  ModelFile file = ModelFile::Read(path);
  EXPECT_EQ(file.tensors.size(), 4U);
  EXPECT_EQ(file.Layers()[0].type, "affine");
  EXPECT_EQ(file.Layers()[0].out_dim, testing::kHidden);
  const std::string again = (system.folder / "again.safetensors").string();
  file.Write(again);
  EXPECT_EQ(ReadFile(again), ReadFile(path));

  ModelFile other;
  other.TakeDescription(path);
  EXPECT_EQ(other.hmm, file.hmm);
  EXPECT_EQ(other.features, file.features);
  ModelFile wider;
  wider.feature_dim = 40;
  wider.TakeDescription(path);
  EXPECT_EQ(wider.hmm, file.hmm);
  EXPECT_EQ(wider.features, "");  // those of other features
  WriteFileAtomically(again + ".json", file.hmm);
  ModelFile by_json;
  by_json.TakeDescription(again + ".json");
  EXPECT_EQ(by_json.hmm, file.hmm);
  WriteFileAtomically(again + ".json", "cat K AE T");
  EXPECT_EQ(ErrorOf([&] { ModelFile().TakeDescription(again + ".json"); }).first, ErrorKind::kInput);
  file.tensors[0].values.pop_back();
  EXPECT_THAT(ErrorOf([&] { file.Write(again); }).second, HasSubstr("more than there are"));
  file.tensors[0].values.push_back(std::numeric_limits<float>::infinity());
  EXPECT_THAT(ErrorOf([&] { file.Write(again); }).second, HasSubstr("inf"));
  file.tensors.erase(file.tensors.begin());
  EXPECT_THAT(ErrorOf([&] { file.Write(again); }).second, HasSubstr("layer 'affine1'"));
  EXPECT_EQ(ReadFile(again), ReadFile(path));  // what fails leaves the old one
}

TEST(PublicTrainer, TellsOfEveryRecord) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  TrainerSettings settings;
  settings.frame_store = (folder / "store").string();
  settings.run_folder = (folder / "run").string();
  settings.threads = 1;
  settings.config =
      "[data]\nminibatch = 16\n[held-out]\nby = 'utterance'\n[schedule]\nepochs = 2\n"
      "[[network.layer]]\ntype = 'affine'\n";
  std::string heard;
  settings.on_metrics = [&](const std::string& json) { heard += json + "\n"; };
  Trainer(settings).Run();
  EXPECT_EQ(heard, ReadFile(folder / "run/metrics.jsonl"));

  settings.on_metrics = [](const std::string&) { throw std::runtime_error("enough"); };
  EXPECT_THAT(ErrorOf([&] { Trainer(settings).Run(); }).second, HasSubstr("enough"));
}

TEST(PublicTrainer, StopsWhenItIsAskedToAndGoesOn) {
  TemporaryFolder folder;
  WriteStore(folder / "store");
  TrainerSettings settings;
  settings.frame_store = (folder / "store").string();
  settings.threads = 1;
  settings.config =
      "log-steps = 1\n[data]\nminibatch = 16\n[held-out]\nby = 'utterance'\n[schedule]\nepochs = 2\n"
      "[parallel]\nmethod = 'ssgd'\nworkers = 2\n[[network.layer]]\ntype = 'affine'\n";
  settings.run_folder = (folder / "whole").string();
  const std::string whole = ReadFile(Trainer(settings).Run().model_file);

  settings.run_folder = (folder / "stopped").string();
  int records = 0;
  settings.on_metrics = [&](const std::string&) {
    if (++records == 3) settings.cancel.Cancel();
  };
  try {
    Trainer(settings).Run();
    FAIL() << records;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kCancelled) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("resume = true"));
  }
  settings.on_metrics = {};
  settings.cancel = CancelToken();
  settings.resume = true;
  EXPECT_EQ(ReadFile(Trainer(settings).Run().model_file), whole);
}

}  // namespace
}  // namespace antiphon
