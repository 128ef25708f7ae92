// Adversarial training on a toy with a shifted domain: algorithms reference 1.25 and 3.6.
#include "train/side_speech.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "domain_store.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/experiment.h"
#include "train/probe.h"

namespace antiphon::train {
namespace {

class SideSpeechTest : public ::testing::Test {
 protected:
  SideSpeechTest()
      : source_(DomainStore(folder_ / "source", false, 1)), target_(DomainStore(folder_ / "target", true, 2)) {}

  TrainOptions Options(const std::string& task, const std::string& store = "target") {
    TrainOptions options = SmallOptions();
    options.data.left_context = options.data.right_context = 0;
    options.schedule.epochs = 12;
    options.schedule.learning_rate = 0.3;
    options.schedule.final_learning_rate = 0.05;
    options.log_steps = 5;
    options.side.task = task;
    options.side.hidden_dim = 16;
    if (task == "domain") options.side.store = (folder_ / store).string();
    return options;
  }
  TrainingTask Task(const std::string& run) {
    TrainingTask task = SmallTask(source_, folder_ / run);
    task.network = Config::Parse(
        "layer = [{type = 'affine', dim = 24}, {type = 'relu'}, {type = 'affine', dim = 12}, {type = 'relu', name = "
        "'hidden'}, {type = 'affine'}]",
        "network");
    return task;
  }
  nn::Model Trained(const std::string& run) { return nn::Model::Load(ModelFile(folder_ / run)); }
  double AccuracyOn(const nn::Model& model, const std::shared_ptr<const data::FrameStore>& store) {
    nn::Workspace ws;
    return Evaluate(model.network, {store, {}, {}, {}}, ws).loss.frame_accuracy();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> source_, target_;
};

TEST_F(SideSpeechTest, AdversarialTrainingHidesTheDomainAndHelpsOnIt) {
  TrainHere(Task("plain"), Options("none"));
  TrainOptions options = Options("domain");
  options.side.adversarial = true;
  options.side.after = "hidden";
  options.side.weight = 1;
  options.schedule.learning_rate = 0.15;  // faster, hidden values and classifier run after each other
  options.schedule.final_learning_rate = 0.025;
  const TrainingSummary summary = TrainHere(Task("adversarial"), options);
  const nn::Model plain = Trained("plain"), hidden = Trained("adversarial");
  const EvaluationData a{source_, {}, {}, {}}, b{target_, {}, {}, {}};
  const double before = Probe(plain.network, "hidden", {a, b}, 1).accuracy,
               after = Probe(hidden.network, "hidden", {a, b}, 1).accuracy;
  EXPECT_EQ(summary.side_layer, "hidden");
  EXPECT_EQ(summary.side_probe.kinds, 2);
  EXPECT_NEAR(summary.side_probe.accuracy, after, 0.03);  // by another draw of its values
  EXPECT_GT(before, 0.85);
  EXPECT_LT(after, before - 0.15);
  EXPECT_GT(AccuracyOn(hidden, target_), AccuracyOn(plain, target_) + 0.1);
  EXPECT_GT(AccuracyOn(hidden, source_), AccuracyOn(plain, source_) - 0.1);
}

TEST_F(SideSpeechTest, WhatNothingTellsApartIsGuessed) {
  TrainOptions options = Options("speaker");  // of five, who all speak alike
  options.schedule.epochs = 1;
  const TrainingSummary speakers = TrainHere(Task("speakers"), options);
  EXPECT_EQ(speakers.side_probe.kinds, 5);
  EXPECT_NEAR(speakers.side_probe.accuracy, 0.2, 0.06);
  EXPECT_EQ(TrainHere(Task("none"), Options("none")).side_probe.kinds, 0);
}

TEST_F(SideSpeechTest, TheSenonesOfTheOtherSpeechAreNeverRead) {
  DomainStore(folder_ / "poisoned", true, 2, true);
  TrainOptions options = Options("domain");
  options.side.adversarial = true;
  options.schedule.epochs = 2;
  const TrainingSummary a = TrainHere(Task("a"), options);
  options.side.store = (folder_ / "poisoned").string();
  const TrainingSummary b = TrainHere(Task("b"), options);
  EXPECT_EQ(a.model_hash, b.model_hash);
}

TEST_F(SideSpeechTest, TheOtherSpeechsOwnSenonesAreLearntIfAsked) {
  TrainOptions options = Options("domain");
  options.side.weight = 0;
  options.schedule.epochs = 4;
  TrainHere(Task("heard"), options);
  options.side.learn = 1;
  TrainHere(Task("learnt"), options);
  EXPECT_GT(AccuracyOn(Trained("learnt"), target_), AccuracyOn(Trained("heard"), target_) + 0.1);
}

// 80 frames per utterance, of which `share` have pdf-id 0.
std::shared_ptr<const data::FrameStore> ShareStore(const std::filesystem::path& folder, double share) {
  data::FrameStoreWriter writer(folder, kDim, kPdfs, {});
  for (int u = 0; u < 50; ++u) {
    const Matrix x(80, kDim);
    std::vector<int32_t> ids(80);
    for (int t = 0; t < 80; ++t) ids[static_cast<size_t>(t)] = t < 80 * share ? 0 : 1 + t % (kPdfs - 1);
    writer.Add("u" + std::to_string(u), "s", x, ids);
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

TEST_F(SideSpeechTest, BalancedFramesHaveAsMuchOfEachSenoneInBothKindsOfSpeech) {
  const auto own = ShareStore(folder_ / "much", 0.6);
  ShareStore(folder_ / "little", 0.1);
  TrainOptions options = Options("domain", "little");
  options.side.balance = true;
  options.data.minibatch = 200;
  SideSpeech side(options.side, own, options.data, nullptr, 1);
  const data::MinibatchPool pool(own, options.data, 1);
  std::vector<std::vector<double>> seen(2, std::vector<double>(kPdfs));
  for (int step = 0; step < 20; ++step) {
    data::MinibatchBuffer buffer;
    pool.Fill(0, 0, step, buffer);
    parallel::StepInput input;
    side.Join(buffer.minibatch, step, input);
    const std::vector<int32_t>& labels = input.context.side_targets->tasks[0].labels;
    for (size_t n = 0; n < labels.size(); ++n) {
      if (labels[n] >= 0) ++seen[static_cast<size_t>(labels[n])][static_cast<size_t>(input.targets.pdf_ids[n])];
      EXPECT_EQ(input.targets.frame_weights[n], n < 200 ? 1 : 0);
    }
  }
  EXPECT_NEAR(seen[1][0], 400, 40);
  for (size_t pdf = 0; pdf < kPdfs; ++pdf) EXPECT_NEAR(seen[0][pdf] / seen[1][pdf], 1, 0.15) << pdf;
}

TEST_F(SideSpeechTest, TheModelHasNoSideTaskAndItsAccuracyIsLogged) {
  TrainOptions options = Options("speaker");
  options.schedule.epochs = 2;
  TrainHere(Task("run"), options);
  const nn::Model model = Trained("run");
  for (size_t i = 0; i < model.network.num_layers(); ++i) EXPECT_NE(model.network.layer_type(i), "side-task");
  EXPECT_NE(ReadFile(folder_ / "run" / "metrics.jsonl").find("side_accuracy"), std::string::npos);
}

TEST_F(SideSpeechTest, WithWeightNothingTheModelIsThatWithoutTheTask) {
  TrainOptions options = Options("speaker");
  options.schedule.epochs = 2;
  options.side.weight = 0;
  TrainHere(Task("with"), options);
  options.side = {};
  TrainHere(Task("without"), options);
  EXPECT_EQ(Trained("with").network.Hash(), Trained("without").network.Hash());
}

// In no regular order, so that labels of neighbours are wrong ones.
bool Loud(int utterance) { return utterance * utterance % 7 < 2; }

// What is loud stands out in the last dimension; the one before counts the utterances in hundredths.
std::shared_ptr<const data::FrameStore> LoudnessStore(const std::filesystem::path& folder, int utterances) {
  data::FrameStoreWriter writer(folder, kDim, kPdfs, {});
  for (int u = 0; u < utterances; ++u) {
    Rng rng(3, static_cast<uint64_t>(u));
    Matrix x(80, kDim);
    std::vector<int32_t> ids(80);
    for (int t = 0; t < 80; ++t) {
      const auto s = static_cast<int32_t>(rng.Below(kPdfs));
      ids[static_cast<size_t>(t)] = s;
      for (int c = 0; c < kDim; ++c) x(t, c) = static_cast<float>(0.3 * rng.Normal());
      x(t, s % 2) += s < 2 ? 1.2f : -1.2f;
      x(t, kDim - 2) = 0.01f * static_cast<float>(u);
      x(t, kDim - 1) += Loud(u) ? 1.5f : -1.5f;
    }
    writer.Add("u" + std::to_string(u), "s" + std::to_string(u % 5), x, ids);
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

// Of every third utterance nothing is known. Lines in another order than the store's.
std::string LoudnessLabels(int utterances) {
  std::string lines;
  for (int u = utterances; u-- > 0;) {
    if (u % 3 != 1) lines += fmt::format("u{} {}\n", u, Loud(u) ? "loud" : "quiet");
  }
  return lines;
}

TEST_F(SideSpeechTest, EachFrameHasTheLabelOfItsUtterance) {
  constexpr int kUtterances = 30;
  const auto store = LoudnessStore(folder_ / "loudness", kUtterances);
  WriteFileAtomically(folder_ / "labels", LoudnessLabels(kUtterances));
  TrainOptions options = Options("labels");
  options.side.labels = (folder_ / "labels").string();
  options.data.minibatch = 200;
  SideSpeech side(options.side, store, options.data, nullptr, 1);
  EXPECT_EQ(side.classes(), 2);
  const data::MinibatchPool pool(store, options.data, 1);
  std::map<int32_t, int> frames;
  for (int step = 0; step < 12; ++step) {
    data::MinibatchBuffer buffer;
    pool.Fill(0, 0, step, buffer);
    parallel::StepInput input;
    side.Join(buffer.minibatch, step, input);
    const std::vector<int32_t>& labels = input.context.side_targets->tasks[0].labels;
    ASSERT_EQ(static_cast<int64_t>(labels.size()), input.features.rows());
    for (size_t n = 0; n < labels.size(); ++n) {
      const int u = static_cast<int>(std::lround(100 * input.features(static_cast<int64_t>(n), kDim - 2)));
      // "loud" comes before "quiet".
      EXPECT_EQ(labels[n], u % 3 == 1 ? nn::SideTargets::kUnknown : Loud(u) ? 0 : 1) << "u" << u;
      ++frames[labels[n]];
    }
  }
  EXPECT_EQ(frames[nn::SideTargets::kUnknown] + frames[0] + frames[1], kUtterances * 80);
  EXPECT_EQ(frames[nn::SideTargets::kUnknown], 10 * 80);
}

TEST_F(SideSpeechTest, LabelsComeFromAFileAndUnknownUtterancesCountForNothing) {
  constexpr int kUtterances = 30;
  WriteFileAtomically(folder_ / "labels", LoudnessLabels(kUtterances));
  TrainOptions options = Options("labels");
  options.side.labels = (folder_ / "labels").string();
  options.schedule.epochs = 2;
  TrainingTask task = Task("run");
  task.store = LoudnessStore(folder_ / "loudness", kUtterances);
  const TrainingSummary summary = TrainHere(task, options);
  EXPECT_EQ(summary.side_probe.kinds, 2);
  EXPECT_GT(summary.side_probe.accuracy, 0.95);
  options.schedule.epochs = 1;
  WriteFileAtomically(folder_ / "labels", "somebody quiet\nelse loud\n");
  EXPECT_THROW(TrainHere(Task("none"), options), InputError);
  WriteFileAtomically(folder_ / "labels", "u0 quiet\nu1 quiet\n");
  EXPECT_THROW(TrainHere(Task("one"), options), InputError);
}

TEST_F(SideSpeechTest, OtherLabelsInTheSameFileAreAnotherExperiment) {
  constexpr int kUtterances = 30;
  WriteFileAtomically(folder_ / "labels", LoudnessLabels(kUtterances));
  TrainOptions options = Options("labels");
  options.side.labels = (folder_ / "labels").string();
  options.schedule.epochs = 1;
  TrainingTask task = Task("run");
  task.store = LoudnessStore(folder_ / "loudness", kUtterances);
  const uint64_t first = TrainHere(task, options).model_hash;
  EXPECT_EQ(TrainHere(task, options, true).model_hash, first);
  std::string lines;
  for (int u = 0; u < kUtterances; ++u) lines += fmt::format("u{} {}\n", u, u % 2 == 0 ? "even" : "odd");
  WriteFileAtomically(folder_ / "labels", lines);
  try {
    TrainHere(task, options, true);
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("content.side.labels"), std::string::npos) << e.what();
  }
  task.anew_if_changed = true;
  const uint64_t anew = TrainHere(task, options, true).model_hash;
  task.folder = folder_ / "fresh";
  EXPECT_EQ(anew, TrainHere(task, options).model_hash);
  EXPECT_NE(anew, first);
}

TEST_F(SideSpeechTest, InputsAreDescribedByWhatTheyHold) {
  TrainOptions options;
  EXPECT_EQ(DescribeInputs(options), "");
  options.side.store = (folder_ / "target").string();
  options.side.labels = (folder_ / "labels").string();
  options.teacher.targets = (folder_ / "targets").string();
  options.sequence.lattices = (folder_ / "lattices").string();
  options.sequence.chain_data = (folder_ / "chain").string();
  const std::vector<std::string> files = {"labels",
                                          "targets",
                                          "lattices/lattices.json",
                                          "chain/chain.json",
                                          "chain/phones.ark",
                                          "chain/model.safetensors",
                                          "chain/denominator.safetensors"};
  for (const char* folder : {"lattices", "chain"}) std::filesystem::create_directory(folder_ / folder);
  for (const std::string& file : files) WriteFileAtomically(folder_ / file, "one\n");
  std::set<std::string> all = {DescribeInputs(options)};
  EXPECT_EQ(*all.begin(), DescribeInputs(options));
  for (const std::string& file : files) {
    WriteFileAtomically(folder_ / file, "two\n");
    EXPECT_TRUE(all.insert(DescribeInputs(options)).second) << file;
  }
  DomainStore(folder_ / "target", true, 3);
  EXPECT_TRUE(all.insert(DescribeInputs(options)).second) << "the store";
}

// Earlier versions' checkpoints say nothing of what is in the inputs.
TEST_F(SideSpeechTest, InputsThatACheckpointDoesNotDescribeDoNotTell) {
  const auto difference = [&](const std::string& then) {
    SafetensorsWriter writer;
    writer.SetMetadata("experiment", then);
    writer.Write(folder_ / "checkpoint");
    return DifferenceFrom(SafetensorsReader(folder_ / "checkpoint"),
                          "seed = 1\ncontent.side.labels = \"12\"\ncontent.side.store = \"34\"\nrate = 2");
  };
  EXPECT_EQ(difference("seed = 1\nrate = 2"), "");
  EXPECT_EQ(difference("seed = 1\ncontent.side.labels = \"12\"\nrate = 2"), "");
  EXPECT_NE(difference("seed = 1\ncontent.side.labels = \"13\"\nrate = 2"), "");
  EXPECT_NE(difference("seed = 1\nrate = 3"), "");
}

TEST_F(SideSpeechTest, GoesOnToTheBit) {
  TrainOptions options = Options("domain");
  options.side.adversarial = true;
  options.schedule.epochs = 2;
  const uint64_t whole = TrainHere(Task("whole"), options).model_hash;
  options.checkpoint.steps = 7;
  options.checkpoint.keep = 100;
  TrainHere(Task("again"), options);
  EXPECT_EQ(BreakOffAfter(20, folder_ / "again"), 14);
  EXPECT_EQ(TrainHere(Task("again"), options, true).model_hash, whole);
}

TEST_F(SideSpeechTest, RefusesWhatDoesNotGoTogether) {
  TrainOptions options = Options("domain");
  options.side.store.clear();
  EXPECT_THROW(TrainHere(Task("run"), options), UsageError);
  options = Options("speaker");
  options.side.store = (folder_ / "target").string();
  EXPECT_THROW(TrainHere(Task("run"), options), UsageError);
  options = Options("speaker");
  options.side.balance = true;
  EXPECT_THROW(TrainHere(Task("run"), options), UsageError);
  options = Options("speaker");
  options.side.after = "nowhere";
  EXPECT_THROW(TrainHere(Task("run"), options), UsageError);
  options = Options("speaker");
  TrainingTask task = Task("run");
  task.parallel = Config::Parse("method = 'hessian-free'", "parallel");
  EXPECT_THROW(TrainHere(task, options), UsageError);
}

}  // namespace
}  // namespace antiphon::train
