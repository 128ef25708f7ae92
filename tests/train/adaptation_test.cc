// Adaptation from end to end on small tasks: what algorithms reference 3.1 and 3.3 promise, the guard against
// forgetting, and what is refused.
#include "train/adaptation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "nn/network_parts.h"
#include "synthetic_task.h"
#include "temporary_folder.h"

namespace antiphon::train {
namespace {

constexpr int kNumPdfs = 8;

Config Sgd() { return Config::Parse("type = \"sgd\"\n", "optimizer"); }

// Speech of the same classes, moved: what an adapted model gains on.
std::shared_ptr<const data::FrameStore> ShiftedStore(const std::filesystem::path& folder, const data::FrameStore& like,
                                                     size_t utterances, float shift) {
  data::FrameStoreWriter writer(folder, like.feat_dim(), like.num_pdfs(), {});
  for (size_t u = 0; u < utterances; ++u) {
    const auto& utterance = like.utterances()[u];
    Matrix features(utterance.num_frames, like.feat_dim());
    std::vector<int32_t> pdf_ids(static_cast<size_t>(utterance.num_frames));
    like.ReadFrames(u, 0, features);
    like.ReadPdfIds(u, pdf_ids);
    for (int64_t t = 0; t < features.rows(); ++t) {
      for (int64_t c = 0; c < features.cols(); ++c) features(t, c) = (1 - 0.2f * shift) * features(t, c) + shift;
    }
    writer.Add("new" + std::to_string(u), "newspeaker", features, pdf_ids);
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

class Adaptation : public ::testing::Test {
 protected:
  Adaptation() {
    store_ = MakeSyntheticStore(folder_ / "old");
    fresh_ = ShiftedStore(folder_ / "new", *store_, 12, 0.7f);
    TrainHere(SmallTask(store_, folder_ / "run"), SmallOptions());
    model_ = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder_ / "run")));
  }

  static AdaptationOptions Options() {
    AdaptationOptions options;
    options.max_forgetting = 1;
    options.train.data.minibatch = 64;
    options.train.schedule.epochs = 3;
    options.train.schedule.learning_rate = 0.2;
    options.train.schedule.final_learning_rate = 0.05;
    return options;
  }
  AdaptationResult Adapt(const std::string& method, const std::string& keys, const AdaptationOptions& options,
                         const std::string& out = "out") {
    const AdaptationRun run(options, model_, {fresh_, nullptr, store_, ""}, 1);
    return run.Adapt(method, Config::Parse(keys, method), folder_ / out, Sgd());
  }
  nn::Model Result(const std::string& out = "out") { return nn::Model::Load(folder_ / out / "model.safetensors"); }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_, fresh_;
  std::shared_ptr<const nn::Model> model_;
};

TEST_F(Adaptation, GainsOnTheNewSpeechAndSaysSo) {
  const AdaptationResult result = Adapt("transfer", "", Options());
  EXPECT_TRUE(result.accepted) << result.verdict;
  EXPECT_LT(result.new_after.loss, result.new_before.loss);
  EXPECT_GT(result.old_before.frames, 0);
  EXPECT_NE(Result().network.Hash(), model_->network.Hash());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "adaptation.json"));
}

TEST_F(Adaptation, FrozenLayersKeepEveryByte) {
  const AdaptationResult result = Adapt("transfer", "train = 'top'\nlayers = 1", Options());
  EXPECT_TRUE(result.accepted);
  const auto before = nn::TakeApart(model_->network), after = nn::TakeApart(Result().network);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    for (const auto& [name, value] : before[i].tensors) {
      const bool same = std::equal(value.data(), value.data() + value.size(), after[i].tensors.at(name).data());
      EXPECT_EQ(same, i + 1 < before.size()) << before[i].name << "." << name;
    }
    EXPECT_EQ(before[i].config.ToToml(), after[i].config.ToToml());
  }
}

TEST_F(Adaptation, BottomLayersLearnBelowFrozenOnes) {
  Adapt("transfer", "train = 'bottom'\nlayers = 1", Options());
  const auto before = nn::TakeApart(model_->network), after = nn::TakeApart(Result().network);
  const Matrix& output = before.back().tensors.at("weight");
  EXPECT_TRUE(std::equal(output.data(), output.data() + output.size(), after.back().tensors.at("weight").data()));
  EXPECT_NE(Result().network.Hash(), model_->network.Hash());
}

TEST_F(Adaptation, BeatsTrainingFromScratchOnTheSameFewFrames) {
  const AdaptationResult result = Adapt("transfer", "", Options());
  TrainOptions options = Options().train;
  options.data.left_context = options.data.right_context = 1;
  TrainingTask task = SmallTask(fresh_, folder_ / "scratch");
  task.optimizer = Sgd();
  EXPECT_LT(result.new_after.loss, TrainHere(task, options).held_out_loss);
}

TEST_F(Adaptation, WithRhoNothingIsPlainTraining) {
  const AdaptationResult a = Adapt("kld", "rho = [0.0]", Options(), "a");
  const AdaptationResult b = Adapt("transfer", "statistics = 'old'", Options(), "b");
  EXPECT_EQ(Result("a").network.Hash(), Result("b").network.Hash());
  EXPECT_EQ(a.new_after.loss, b.new_after.loss);
}

TEST_F(Adaptation, WithRhoOneNothingChanges) {
  const AdaptationResult result = Adapt("kld", "rho = [1.0]", Options());
  EXPECT_FALSE(result.accepted);
  EXPECT_NEAR(result.new_after.loss, result.new_before.loss, 1e-5);
  EXPECT_EQ(Result().network.Hash(), model_->network.Hash());
  const nn::Model learned = nn::Model::Load(folder_ / "out" / "adapted.safetensors");
  double largest = 0;
  for (size_t i = 0; i < learned.network.num_values(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(learned.network.values()[i]) -
                                         static_cast<double>(model_->network.values()[i])));
  }
  EXPECT_LT(largest, 1e-5);
}

// Networks of several frames: the old model cannot look on while they train, and so what it says is stored first.
TEST_F(Adaptation, TimeDelayAndRecurrentNetworksAdaptToo) {
  const char* networks[] = {
      "layer = [{type='tdnn', dim=24}, {type='relu'}, {type='batch-norm'}, {type='tdnn', dim=24, offsets=[-2, 0, 2]}, "
      "{type='relu'}, {type='affine'}]",
      "layer = [{type='tdnn', dim=16}, {type='relu'}, {type='lstm', dim=24, projection=12}, {type='affine'}]",
      "layer = [{type='tdnn', dim=16}, {type='relu'}, {type='tdnn-f', dim=16, bottleneck=8}, {type='affine'}]"};
  for (const char* network : networks) {
    TrainOptions training = SmallOptions();
    training.data.left_context = training.data.right_context = 0;
    training.data.chunk_frames = 20;
    TrainingTask task = SmallTask(store_, folder_ / "sequences");
    task.network = Config::Parse(network, "network");
    TrainHere(task, training);
    model_ = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder_ / "sequences")));
    const AdaptationResult same = Adapt("kld", "rho = [1.0]", Options());
    EXPECT_NEAR(same.new_after.loss, same.new_before.loss, 1e-3);
    const std::map<std::string, std::string> keys = {
        {"kld", "rho = [0.25]"}, {"transfer", ""},   {"lin", ""}, {"lhn", ""}, {"lhuc", ""},
        {"mix", "repeat = 3"},   {"adversarial", ""}};
    for (const auto& [method, own_keys] : keys) {
      const AdaptationResult result = Adapt(method, own_keys, Options());
      EXPECT_TRUE(result.accepted) << method << " " << network << ": " << result.verdict;
      EXPECT_LT(result.new_after.loss, result.new_before.loss) << method;
      if (result.profile.empty()) {
        EXPECT_EQ(Result().network.ToToml(), model_->network.ToToml()) << method;
      }
      // Whoever trained beside it, what is the speaker's fits the shared model as it was.
      EXPECT_EQ(!result.profile.empty(), method == "lin" || method == "lhn" || method == "lhuc") << method;
      EXPECT_EQ(result.schedule.empty(), method != "mix");
      EXPECT_EQ(result.probe_before.kinds, method == "adversarial" ? 2 : 0);
    }
    std::filesystem::remove_all(folder_ / "sequences");
  }
}

TEST_F(Adaptation, TheDivergenceFromTheOldModelFallsWithRho) {
  double last = HUGE_VAL;
  for (const char* rho : {"0.0", "0.3", "0.6", "0.9"}) {
    Adapt("kld", std::string("rho = [") + rho + "]", Options());
    const nn::Model learned = nn::Model::Load(folder_ / "out" / "adapted.safetensors");
    // The posteriors of the old model as targets without labels: cross-entropy minus entropy is the divergence.
    Matrix x(fresh_->utterances()[0].num_frames, fresh_->feat_dim() * 3);
    for (int t = 0; t < x.rows(); ++t) fresh_->ReadSpliced(0, t, {1, 1}, x.Row(t).data());
    nn::Workspace a, b;
    const MatrixView p = model_->network.Forward({}, x, a), q = learned.network.Forward({}, x, b);
    double divergence = 0;
    for (int64_t n = 0; n < p.rows(); ++n) {
      double p_sum = 0, q_sum = 0;
      for (int64_t k = 0; k < kNumPdfs; ++k) {
        p_sum += std::exp(static_cast<double>(p(n, k)));
        q_sum += std::exp(static_cast<double>(q(n, k)));
      }
      for (int64_t k = 0; k < kNumPdfs; ++k) {
        const double log_p = static_cast<double>(p(n, k)) - std::log(p_sum);
        divergence += std::exp(log_p) * (log_p - static_cast<double>(q(n, k)) + std::log(q_sum));
      }
    }
    EXPECT_LT(divergence, last) << rho;
    last = divergence;
  }
}

TEST_F(Adaptation, TheBestOfSeveralRhoIsTaken) {
  const AdaptationResult result = Adapt("kld", "rho = [0.0, 0.5, 1.0]", Options());
  ASSERT_EQ(result.trials.size(), 3u);
  for (const AdaptationTrial& trial : result.trials) EXPECT_LE(result.new_after.loss, trial.new_speech.loss);
  EXPECT_LT(result.original_share, 1);
}

TEST_F(Adaptation, WhatForgetsTooMuchIsNotTaken) {
  AdaptationOptions options = Options();
  options.max_forgetting = 0;
  options.train.schedule.epochs = 6;
  fresh_ = ShiftedStore(folder_ / "far", *store_, 12, 3.0f);
  const AdaptationResult result = Adapt("transfer", "", options);
  EXPECT_FALSE(result.accepted);
  EXPECT_NE(result.verdict.find("forgotten"), std::string::npos) << result.verdict;
  EXPECT_EQ(Result().network.Hash(), model_->network.Hash());
  EXPECT_EQ(Result().log_priors, model_->log_priors);
}

TEST_F(Adaptation, WhatIsOneSpeakersMakesNobodyForget) {
  AdaptationOptions options = Options();
  options.max_forgetting = 0;
  options.train.schedule.epochs = 6;
  fresh_ = ShiftedStore(folder_ / "far", *store_, 12, 3.0f);
  const AdaptationResult result = Adapt("lin", "", options);
  EXPECT_LT(result.old_after.frame_accuracy, result.old_before.frame_accuracy);
  EXPECT_TRUE(result.accepted) << result.verdict;
  EXPECT_TRUE(std::filesystem::exists(result.profile));
}

TEST_F(Adaptation, PriorsMoveTowardsTheNewSpeech) {
  AdaptationOptions options = Options();
  options.prior_frames = 0;
  Adapt("transfer", "", options, "new");
  options.prior_frames = 1e9;
  Adapt("transfer", "", options, "old");
  double moved = 0;
  for (size_t s = 0; s < model_->log_priors.size(); ++s) {
    EXPECT_NEAR(Result("old").log_priors[s], model_->log_priors[s], 1e-3);
    moved += std::abs(static_cast<double>(Result("new").log_priors[s] - model_->log_priors[s]));
  }
  EXPECT_GT(moved, 0.01);
}

TEST_F(Adaptation, ANewOutputLayerServesOtherSenones) {
  data::FrameStoreWriter writer(folder_ / "coarse", store_->feat_dim(), 3, {});
  for (size_t u = 0; u < 16; ++u) {
    Matrix features(store_->utterances()[u].num_frames, store_->feat_dim());
    std::vector<int32_t> pdf_ids(static_cast<size_t>(features.rows()));
    store_->ReadFrames(u, 0, features);
    store_->ReadPdfIds(u, pdf_ids);
    for (int32_t& id : pdf_ids) id %= 3;
    writer.Add("u" + std::to_string(u), "s", features, pdf_ids);
  }
  writer.Finish();
  const AdaptationRun run(Options(), model_,
                          {std::make_shared<const data::FrameStore>(folder_ / "coarse"), nullptr, nullptr, ""}, 1);
  const AdaptationResult result =
      run.Adapt("transfer", Config::Parse("train = 'top'", "transfer"), folder_ / "out", Sgd());
  EXPECT_TRUE(result.accepted) << result.verdict;
  EXPECT_EQ(Result().num_pdfs(), 3);
  EXPECT_EQ(Result().log_priors.size(), 3u);
  EXPECT_GT(result.new_after.frame_accuracy, 0.5);
}

TEST_F(Adaptation, OldSpeechSaysNothingAboutOtherSenones) {
  data::FrameStoreWriter writer(folder_ / "reversed", store_->feat_dim(), kNumPdfs + 3, {});
  for (size_t u = 0; u < 16; ++u) {
    Matrix features(store_->utterances()[u].num_frames, store_->feat_dim());
    std::vector<int32_t> pdf_ids(static_cast<size_t>(features.rows()));
    store_->ReadFrames(u, 0, features);
    store_->ReadPdfIds(u, pdf_ids);
    for (int32_t& id : pdf_ids) id = kNumPdfs + 2 - id;
    writer.Add("u" + std::to_string(u), "s", features, pdf_ids);
  }
  writer.Finish();
  AdaptationOptions options = Options();
  options.max_forgetting = 0.05;
  const auto reversed = std::make_shared<const data::FrameStore>(folder_ / "reversed");
  const AdaptationRun run(options, model_, {reversed, nullptr, store_, ""}, 1);
  const AdaptationResult result = run.Adapt("transfer", Config(), folder_ / "out", Sgd());
  EXPECT_TRUE(result.accepted) << result.verdict;
  EXPECT_EQ(result.old_after.frames, 0);
  EXPECT_EQ(Result().num_pdfs(), kNumPdfs + 3);
}

TEST_F(Adaptation, OtherSenonesAreForNewOutputLayersAlone) {
  SyntheticData more;
  more.num_pdfs = kNumPdfs + 3;
  const auto other = MakeSyntheticStore(folder_ / "other", more);
  for (const char* method : {"fmllr", "lhuc", "lin", "lhn", "kld", "mix"}) {
    const AdaptationRun run(Options(), model_, {other, nullptr, store_, ""}, 1);
    EXPECT_THROW(run.Adapt(method, Config(), folder_ / "out", Sgd()), UsageError) << method;
  }
  EXPECT_THROW(AdaptationRun(Options(), model_, {fresh_, other, nullptr, ""}, 1), InputError) << "held out";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
}

std::set<std::string> Ids(const data::FrameStore& store, const std::vector<size_t>& utterances) {
  std::set<std::string> ids;
  for (const size_t u : utterances) ids.insert(store.utterances()[u].utt_id);
  return ids;
}

// What the first training held out, whatever seed this one has, and nothing that is trained on.
TEST_F(Adaptation, OldSpeechIsMeasuredOnWhatNoTrainingSaw) {
  TrainingTask task = SmallTask(store_, folder_ / "other-seed");
  task.seed = 77;
  TrainHere(task, SmallOptions());
  model_ = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder_ / "other-seed")));
  const DataSplit split = SplitForRun(*store_, SmallOptions().held_out, 77);
  const std::set<std::string> held_out = Ids(*store_, split.held_out);
  ASSERT_FALSE(held_out.empty());
  nn::Workspace workspace;
  EvaluationData data{store_, split.held_out, {1, 1}, {}};
  const nn::LossResult expected = Evaluate(model_->network, data, workspace).loss;
  const AdaptationRun run(Options(), model_, {fresh_, nullptr, store_, ""}, 1);
  const DomainMeasures measured = run.MeasureOld(*model_);
  EXPECT_EQ(measured.frames, expected.weight_sum);
  EXPECT_NEAR(measured.loss, expected.loss(), 1e-6);

  const auto learnt_from = [&](const std::string& store) {
    const data::FrameStore learnt(folder_ / "out" / store);
    int old = 0;
    for (const auto& utterance : learnt.utterances()) {
      EXPECT_FALSE(held_out.contains(utterance.utt_id)) << store << ": " << utterance.utt_id;
      old += utterance.utt_id.starts_with("new") ? 0 : 1;
    }
    EXPECT_EQ(old, std::ssize(split.train)) << store;
  };
  const AdaptationResult mixed = run.Adapt("mix", Config(), folder_ / "out", Sgd());
  EXPECT_FALSE(mixed.schedule.empty());
  EXPECT_NE(ToJson(mixed).find("\"new_share\""), std::string::npos);
  learnt_from("train-store");
  run.Adapt("adversarial", Config(), folder_ / "out", Sgd());
  learnt_from("train-old");
  // The next adaptation finds the same.
  EXPECT_EQ(Result().descriptions.at("held_out"), model_->descriptions.at("held_out"));
}

// A second adaptation to the same speech, with another seed and other options, measures on what the first held out; so
// does an adaptation to speech that the model was trained on.
TEST_F(Adaptation, SpeechThatWasLearntBeforeIsMeasuredOnWhatWasHeldOutThen) {
  ASSERT_TRUE(Adapt("transfer", "", Options()).accepted);
  const auto adapted = std::make_shared<const nn::Model>(Result());
  AdaptationOptions options = Options();
  options.train.held_out.fraction = 0.4;
  const auto frames = [&](const nn::Model& model, const data::FrameStore& store, const DataSplit& split) {
    nn::Workspace workspace;
    const auto shared = std::shared_ptr<const data::FrameStore>(&store, [](const data::FrameStore*) {});
    return Evaluate(model.network, {shared, split.held_out, {1, 1}, {}}, workspace).loss;
  };
  const nn::LossResult expected = frames(*adapted, *fresh_, SplitForRun(*fresh_, Options().train.held_out, 1));
  const AdaptationRun again(options, adapted, {fresh_, nullptr, nullptr, ""}, 99);
  EXPECT_EQ(again.MeasureNew(*adapted).frames, expected.weight_sum);
  EXPECT_NEAR(again.MeasureNew(*adapted).loss, expected.loss(), 1e-6);
  const nn::LossResult trained = frames(*model_, *store_, SplitForRun(*store_, SmallOptions().held_out, 1));
  const AdaptationRun to_old(options, model_, {store_, nullptr, nullptr, ""}, 99);
  EXPECT_NEAR(to_old.MeasureNew(*model_).loss, trained.loss(), 1e-6);
  // What a person asks for holds.
  options.own_held_out = true;
  const AdaptationRun own(options, adapted, {fresh_, nullptr, nullptr, ""}, 99);
  const nn::LossResult asked = frames(*adapted, *fresh_, SplitForRun(*fresh_, options.train.held_out, 99));
  EXPECT_EQ(own.MeasureNew(*adapted).frames, asked.weight_sum);
  EXPECT_NE(asked.weight_sum, expected.weight_sum);
}

TEST_F(Adaptation, PriorsOfMixedSpeechAreThoseOfTheMixture) {
  // Three epochs: of the old speech, the last quarter of the run reads three quarters, and its half one and a half. New
  // speech stands in each epoch that has any.
  struct Case {
    const char* keys;
    double old_passes, new_passes;
  };
  for (const auto& [keys, old_passes, new_passes] :
       {Case{"repeat = 3\nschedule = 'uniform'", 3, 9}, Case{"repeat = 3\nschedule = 'tail'\ntail = 0.25", 0.75, 3},
        Case{"repeat = 3\nschedule = 'tail'\ntail = 0.5", 1.5, 6}}) {
    ASSERT_TRUE(Adapt("mix", keys, Options()).accepted);
    const data::FrameStore mixed(folder_ / "out" / "train-store");
    std::vector<double> counts(kNumPdfs);
    for (size_t u = 0; u < mixed.utterances().size(); ++u) {
      std::vector<int32_t> pdf_ids(static_cast<size_t>(mixed.utterances()[u].num_frames));
      mixed.ReadPdfIds(u, pdf_ids);
      const double weight = mixed.utterances()[u].utt_id.starts_with("new-") ? new_passes : old_passes;
      for (const int32_t pdf : pdf_ids) counts[static_cast<size_t>(pdf)] += weight;
    }
    const std::vector<float> expected = hmm::LogPriors(counts), found = Result().log_priors;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t s = 0; s < found.size(); ++s) EXPECT_NEAR(found[s], expected[s], 1e-6) << keys << ' ' << s;
  }
}

TEST_F(Adaptation, WithoutWordsOnlyForgettingCanSpeakAgainstIt) {
  AdaptationSpeech speech{fresh_, nullptr, store_, ""};
  speech.words_known = false;
  const AdaptationResult taken =
      AdaptationRun(Options(), model_, speech, 1).Adapt("adversarial", Config(), folder_ / "out", Sgd());
  EXPECT_TRUE(taken.accepted);
  EXPECT_NE(taken.verdict.find("nobody knows"), std::string::npos);
  EXPECT_GT(taken.probe_after.kinds, 0);
  double errors = 0.1;
  speech.old_word_errors = [&](const nn::Model&, const std::filesystem::path&) { return std::exchange(errors, 0.5); };
  const AdaptationResult refused =
      AdaptationRun(Options(), model_, speech, 1).Adapt("adversarial", Config(), folder_ / "out", Sgd());
  EXPECT_FALSE(refused.accepted);
  EXPECT_NE(refused.verdict.find("too much was forgotten"), std::string::npos) << refused.verdict;
}

TEST_F(Adaptation, AClassifierThatHasTooLittleSpeechSaysSo) {
  AdaptationSpeech speech{ShiftedStore(folder_ / "few", *store_, 3, 0.7f), nullptr, store_, ""};
  speech.words_known = false;
  const AdaptationResult result =
      AdaptationRun(Options(), model_, speech, 1).Adapt("adversarial", Config(), folder_ / "out", Sgd());
  EXPECT_NE(ProbeText(result.probe_after).find("too little"), std::string::npos);
  EXPECT_NE(ToJson(result).find("\"after\":null,\"before\":null,\"layer\""), std::string::npos) << ToJson(result);
}

TEST_F(Adaptation, AnEarlierProfileDoesNotOutliveAnAdaptationWithoutOne) {
  WriteFileAtomically(folder_ / "out" / "profile.safetensors", "of an earlier adaptation");
  EXPECT_TRUE(Adapt("kld", "rho = [0.25]", Options()).profile.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "profile.safetensors"));
}

TEST_F(Adaptation, RefusesWhatDoesNotFit) {
  EXPECT_THROW(AdaptationRun(Options(), model_, {}, 1), UsageError);
  SyntheticData wide;
  wide.feat_dim = 9;
  EXPECT_THROW(AdaptationRun(Options(), model_, {MakeSyntheticStore(folder_ / "wide", wide), nullptr, nullptr, ""}, 1),
               InputError);
  SyntheticData one;
  one.speakers = one.utterances_per_speaker = 1;
  EXPECT_THROW(AdaptationRun(Options(), model_, {MakeSyntheticStore(folder_ / "one", one), nullptr, nullptr, ""}, 1),
               InputError);
  EXPECT_THROW(Adapt("kld", "rho = [1.5]", Options()), UsageError);
  EXPECT_THROW(Adapt("magic", "", Options()), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
}

}  // namespace
}  // namespace antiphon::train
