// Side tasks of networks that look at several frames or carry a state: their minibatches are chunks.
#include <gtest/gtest.h>

#include <cmath>

#include "domain_store.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/joined_minibatch.h"
#include "train/probe.h"
#include "train/side_speech.h"

namespace antiphon::train {
namespace {

constexpr const char* kSideTdnn =
    "layer = [{type = 'tdnn', dim = 24}, {type = 'relu'}, {type = 'batch-norm'}, {type = 'affine', dim = 12}, {type = "
    "'relu', name = 'hidden'}, {type = 'tdnn', dim = 16}, {type = 'relu'}, {type = 'affine'}]";
constexpr const char* kSideLstm =
    "layer = [{type = 'lstm', dim = 24, projection = 12}, {type = 'affine', dim = 12}, {type = 'relu', name = "
    "'hidden'}, {type = 'tdnn', dim = 16}, {type = 'relu'}, {type = 'affine'}]";

// How the toy's domain is fought, and how much less of it must be left.
struct Fight {
  double weight = 1;
  int hidden_dim = 16;
  double least_drop = 0.1;
};
// A state collects what little each frame says of the domain, which is hidden from it less easily.
constexpr Fight kRecurrentFight = {0.3, 64, 0.02};

struct Kind {
  const char* name;
  const char* network;
  bool carry = true;
  Fight fight = {};
};

class SideSequences : public ::testing::TestWithParam<Kind> {
 protected:
  SideSequences()
      : source_(DomainStore(folder_ / "source", false, 1)), target_(DomainStore(folder_ / "target", true, 2)) {}

  TrainOptions Options(const std::string& task) {
    TrainOptions options = SmallOptions();
    options.data.left_context = options.data.right_context = 0;
    options.data.chunk_frames = 20;
    options.data.minibatch = 80;
    options.data.carry_state = GetParam().carry;
    options.schedule.epochs = 2;
    options.side.task = task;
    options.side.after = task == "none" ? "" : "hidden";
    options.side.hidden_dim = 16;
    if (task == "domain") options.side.store = (folder_ / "target").string();
    return options;
  }
  TrainingTask Task(const std::string& run) {
    TrainingTask task = SmallTask(source_, folder_ / run);
    task.network = Config::Parse(GetParam().network, "network");
    return task;
  }
  nn::Model Trained(const std::string& run) { return nn::Model::Load(ModelFile(folder_ / run)); }
  double AccuracyOn(const nn::Model& model, const std::shared_ptr<const data::FrameStore>& store) {
    nn::Workspace ws;
    EvaluationData data{store, {}, {}, {}};
    data.SuitTo(model.network);
    return Evaluate(model.network, data, ws).loss.frame_accuracy();
  }
  double Told(const nn::Model& model) {
    return Probe(model.network, "hidden", {{source_, {}, {}, {}}, {target_, {}, {}, {}}}, 1).accuracy;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> source_, target_;
};

INSTANTIATE_TEST_SUITE_P(All, SideSequences,
                         ::testing::Values(Kind{"tdnn", kSideTdnn}, Kind{"lstm", kSideLstm, true, kRecurrentFight},
                                           Kind{"lstm_chunks", kSideLstm, false, kRecurrentFight}),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(SideSequences, AdversarialTrainingHidesTheDomain) {
  TrainOptions plain = Options("none");
  plain.schedule.epochs = 12;
  plain.schedule.learning_rate = 0.3;
  plain.schedule.final_learning_rate = 0.05;
  TrainHere(Task("plain"), plain);
  TrainOptions options = plain;
  options.side = Options("domain").side;
  options.side.adversarial = true;
  options.side.weight = GetParam().fight.weight;
  options.side.hidden_dim = GetParam().fight.hidden_dim;
  options.schedule.learning_rate = 0.15;
  options.schedule.final_learning_rate = 0.025;
  const TrainingSummary summary = TrainHere(Task("adversarial"), options);
  const nn::Model before = Trained("plain"), after = Trained("adversarial");
  EXPECT_EQ(summary.side_layer, "hidden");
  EXPECT_NEAR(summary.side_probe.accuracy, Told(after), 0.05);
  EXPECT_GT(Told(before), 0.85);
  EXPECT_LT(Told(after), Told(before) - GetParam().fight.least_drop);
  EXPECT_GT(AccuracyOn(after, source_), AccuracyOn(before, source_) - 0.1);
}

TEST_P(SideSequences, TheSenonesOfTheOtherSpeechAreNeverRead) {
  DomainStore(folder_ / "poisoned", true, 2, true);
  TrainOptions options = Options("domain");
  options.side.adversarial = true;
  const TrainingSummary a = TrainHere(Task("a"), options);
  options.side.store = (folder_ / "poisoned").string();
  EXPECT_EQ(TrainHere(Task("b"), options).model_hash, a.model_hash);
}

TEST_P(SideSequences, TheOtherSpeechsOwnSenonesAreLearntIfAsked) {
  TrainOptions options = Options("domain");
  options.side.weight = 0;
  options.schedule.epochs = 5;
  TrainHere(Task("heard"), options);
  options.side.learn = 1;
  TrainHere(Task("learnt"), options);
  EXPECT_GT(AccuracyOn(Trained("learnt"), target_), AccuracyOn(Trained("heard"), target_) + 0.1);
}

TEST_P(SideSequences, WithWeightNothingTheModelIsThatWithoutTheTask) {
  TrainOptions options = Options("speaker");
  options.side.weight = 0;
  TrainHere(Task("with"), options);
  options.side = {};
  TrainHere(Task("without"), options);
  EXPECT_EQ(Trained("with").network.Hash(), Trained("without").network.Hash());
}

TEST_P(SideSequences, GoesOnToTheBit) {
  TrainOptions options = Options("domain");
  options.side.adversarial = true;
  const uint64_t whole = TrainHere(Task("whole"), options).model_hash;
  options.checkpoint.steps = 7;
  options.checkpoint.keep = 100;
  TrainHere(Task("again"), options);
  EXPECT_EQ(BreakOffAfter(20, folder_ / "again"), 14);
  EXPECT_EQ(TrainHere(Task("again"), options, true).model_hash, whole);
}

// Utterances of different lengths, whose number stands in hundredths in the first column.
std::shared_ptr<const data::FrameStore> NumberedStore(const std::filesystem::path& folder) {
  data::FrameStoreWriter writer(folder, kDim, kPdfs, {});
  for (int u = 0; u < 30; ++u) {
    const int frames = 17 + 37 * u % 90;
    Matrix x(frames, kDim);
    for (int t = 0; t < frames; ++t) x(t, 0) = 0.01f * static_cast<float>(u);
    writer.Add(fmt::format("u{:02}", u), "s" + std::to_string(u * u % 5), x,
               std::vector<int32_t>(static_cast<size_t>(frames), u % kPdfs));
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

TEST_P(SideSequences, EachOutputHasTheLabelOfWhatItsStreamSays) {
  const auto store = NumberedStore(folder_ / "numbered");
  TrainOptions options = Options("speaker");
  const nn::Network network(Config::Parse(GetParam().network, "network"), kDim, kPdfs, 1);
  const TimeContext needed = network.time_context();
  SideSpeech side(options.side, store, options.data, nullptr, 1, needed);
  const data::MinibatchPool pool(store, options.data, 1, 1, {}, {}, needed);
  int64_t known = 0;
  for (int64_t i = 0; i < pool.num_minibatches(0); ++i) {
    data::MinibatchBuffer buffer;
    pool.Fill(0, 0, i, buffer);
    parallel::StepInput input;
    side.Join(buffer.minibatch, i, input);
    const SequenceLayout& layout = *input.context.sequences;
    const std::vector<int32_t>& labels = input.context.side_targets->tasks[0].labels;
    ASSERT_EQ(std::ssize(labels), int64_t{layout.frames} * layout.streams);
    for (int s = 0; s < layout.streams; ++s) {
      for (int t = 0; t < layout.frames; ++t) {
        const int32_t label = labels[static_cast<size_t>(t * layout.streams + s)];
        if (t >= layout.lengths[static_cast<size_t>(s)]) {
          EXPECT_EQ(label, nn::SideTargets::kUnknown);
          continue;
        }
        const auto u = std::lround(100 * input.features((t + needed.left) * layout.streams + s, 0));
        EXPECT_EQ(label, store->utterances()[static_cast<size_t>(u)].speaker) << u;
        ++known;
      }
    }
  }
  EXPECT_EQ(known, store->num_frames());
}

// Chunks of the two are of different lengths and numbers: each kind of speech has half of the weight all the same.
TEST_P(SideSequences, BothKindsOfSpeechWeighAlike) {
  const auto store = NumberedStore(folder_ / "numbered");
  for (const bool balance : {false, true}) {
    TrainOptions options = Options("domain");
    options.side.balance = balance;
    const TimeContext needed = nn::Network(Config::Parse(GetParam().network, "net"), kDim, kPdfs, 1).time_context();
    SideSpeech side(options.side, store, options.data, nullptr, 1, needed);
    const data::MinibatchPool pool(store, options.data, 1, 1, {}, {}, needed);
    int unequal = 0;
    for (int64_t i = 0; i < pool.num_minibatches(0); ++i) {
      data::MinibatchBuffer buffer;
      pool.Fill(0, 0, i, buffer);
      parallel::StepInput input;
      side.Join(buffer.minibatch, i, input);
      const nn::SideTarget& target = input.context.side_targets->tasks[0];
      double frames[2] = {}, weight[2] = {};
      for (size_t n = 0; n < target.labels.size(); ++n) {
        if (target.labels[n] == nn::SideTargets::kUnknown) {
          EXPECT_EQ(target.weights[n], 0);
          continue;
        }
        ++frames[target.labels[n]];
        weight[target.labels[n]] += static_cast<double>(target.weights[n]);
      }
      ASSERT_GT(frames[0] * frames[1], 0);
      EXPECT_NEAR(weight[0], weight[1], 1e-3);
      EXPECT_NEAR(weight[0] + weight[1], frames[0] + frames[1], 1e-3);
      unequal += frames[0] != frames[1] ? 1 : 0;
    }
    EXPECT_GT(unequal, 0);
  }
}

// Own streams come first and stay as they are, whatever joins them.
TEST_P(SideSequences, StreamsStandSideBySide) {
  const TimeContext needed{2, 1, 1};
  data::MinibatchOptions options = Options("domain").data;
  const data::MinibatchPool mine(source_, options, 1, 1, {}, {}, needed);
  options.carry_state = false;
  options.chunk_frames = 27;  // another length
  options.minibatch = 60;     // two streams beside four
  const data::MinibatchPool others(target_, options, 2, 1, {}, {}, needed);
  JoinedMinibatch joined;
  for (int64_t i = 0; i < mine.num_minibatches(0); ++i) {
    data::MinibatchBuffer a, b;
    mine.Fill(0, 0, i, a);
    others.Fill(0, 0, i % others.num_minibatches(0), b);
    const SequenceLayout &own = *a.minibatch.sequences, &other = *b.minibatch.sequences;
    joined.Join(a.minibatch, b.minibatch, needed);
    const SequenceLayout& layout = *joined.sequences();
    ASSERT_EQ(layout.streams, 2 * own.streams);
    ASSERT_EQ(layout.frames, std::max(own.frames, other.frames));
    ASSERT_EQ(joined.features().rows(), (layout.frames + 3) * layout.streams);
    ASSERT_EQ(static_cast<int>(joined.outputs()), layout.frames * layout.streams);
    for (int s = 0; s < layout.streams; ++s) {
      const bool is_own = s < own.streams;
      const SequenceLayout& part = is_own ? own : other;
      const int from = is_own ? s : s - own.streams;
      const auto at = static_cast<size_t>(s);
      if (from >= part.streams) {
        EXPECT_EQ(layout.lengths[at], 0);
        continue;
      }
      EXPECT_EQ(layout.lengths[at], part.lengths[static_cast<size_t>(from)]);
      EXPECT_EQ(layout.Begins(s), part.Begins(from));
      const ConstMatrixView features = is_own ? a.minibatch.features : b.minibatch.features;
      for (int t = 0; t < part.frames + 3; ++t) {
        for (int c = 0; c < kDim; ++c) {
          ASSERT_EQ(joined.features()(t * layout.streams + s, c), features(t * part.streams + from, c));
        }
      }
      for (int t = 0; t < layout.frames; ++t) {
        const auto output = static_cast<size_t>(t * layout.streams + s);
        const auto place = is_own ? joined.Own(output) : joined.Other(output);
        EXPECT_FALSE((is_own ? joined.Other(output) : joined.Own(output)).has_value());
        ASSERT_EQ(place.has_value(), t < part.frames);
        if (place) {
          EXPECT_EQ(static_cast<int>(*place), t * part.streams + from);
        }
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::train
