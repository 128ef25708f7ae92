// Chain models adapted by their own criterion: what is promised of the methods, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "chain_task.h"
#include "train/adaptation.h"
#include "train/evaluate.h"
#include "train/sequence_task.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

using ::testing::HasSubstr;

class ChainAdaptation : public ChainTraining {
 protected:
  void SetUp() override {
    ChainTraining::SetUp();
    TrainHere(Task("run"), ChainTraining::Options());
    model_ = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder_ / "run")));
    Shift();
  }

  static Config Sgd() { return Config::Parse("type = \"sgd\"\n", "optimizer"); }
  AdaptationOptions Options() const {
    AdaptationOptions options;
    options.max_forgetting = 1;
    options.train.sequence = ChainTraining::Options().sequence;
    options.train.data.chunk_frames = 30;
    options.train.data.minibatch = 240;
    options.train.schedule.learning_rate = 0.5;
    options.train.schedule.final_learning_rate = 0.1;
    return options;
  }
  AdaptationSpeech Speech() const {
    return {.new_store = fresh_, .old_store = store_, .old_chain_data = (folder_ / "chain").string()};
  }
  AdaptationResult Adapt(const std::string& method, const std::string& keys) const {
    return AdaptationRun(Options(), model_, Speech(), 1)
        .Adapt(method, Config::Parse(keys, method), folder_ / method, Sgd());
  }

  std::shared_ptr<const nn::Model> model_;
  std::shared_ptr<const data::FrameStore> fresh_;

 private:
  // The same utterances, heard otherwise.
  void Shift() {
    data::FrameStoreWriter writer(folder_ / "new", store_->feat_dim(), store_->num_pdfs());
    for (size_t u = 0; u < store_->utterances().size(); ++u) {
      const auto& utterance = store_->utterances()[u];
      Matrix features(utterance.num_frames, store_->feat_dim());
      std::vector<int32_t> pdf_ids(static_cast<size_t>(utterance.num_frames));
      store_->ReadFrames(u, 0, features);
      store_->ReadPdfIds(u, pdf_ids);
      for (int64_t t = 0; t < features.rows(); ++t) {
        for (int64_t c = 0; c < features.cols(); ++c) {
          features(t, c) = 0.6f * features(t, c) + 0.4f * static_cast<float>(c % 2);
        }
      }
      writer.Add(utterance.utt_id, "newspeaker", features, pdf_ids);
    }
    writer.Finish();
    fresh_ = std::make_shared<const data::FrameStore>(folder_ / "new");
  }
};

TEST_F(ChainAdaptation, GainsByTheCriterionWithoutPriors) {
  for (const char* method : {"transfer", "lhuc"}) {
    const AdaptationResult result = Adapt(method, "");
    EXPECT_TRUE(result.accepted) << result.verdict;
    EXPECT_LT(result.new_after.loss, result.new_before.loss) << method;
    EXPECT_GT(result.old_before.frames, 0) << method;
    const nn::Model adapted = nn::Model::Load(result.model);
    EXPECT_EQ(adapted.frame_subsampling, 3);
    EXPECT_EQ(adapted.log_priors, model_->log_priors);
  }
}

// C is said as B is.
TEST_F(ChainAdaptation, ANewOutputLayerServesOtherStates) {
  const hmm::PhoneSet phones({"A", "B"}, {"SIL"}, false);
  const hmm::Topology topology = hmm::Topology::Chain(phones);
  const hmm::HmmModel fewer(phones, topology, hmm::ContextTree::Monophone(topology));
  ASSERT_LT(fewer.num_pdfs(), model_->num_pdfs());
  const chain::ChainData all = chain::ChainData::Load(folder_ / "chain");
  std::map<std::string, chain::Reference> references;
  std::vector<std::vector<int32_t>> sequences;
  data::FrameStoreWriter writer(folder_ / "fewer", fresh_->feat_dim(), fewer.num_pdfs());
  for (size_t u = 0; u < fresh_->utterances().size(); ++u) {
    const auto& utterance = fresh_->utterances()[u];
    Matrix features(utterance.num_frames, fresh_->feat_dim());
    fresh_->ReadFrames(u, 0, features);
    std::vector<int32_t> pdf_ids(static_cast<size_t>(utterance.num_frames));
    fresh_->ReadPdfIds(u, pdf_ids);
    for (int32_t& id : pdf_ids) id = std::min(id, 4);
    writer.Add(utterance.utt_id, "newspeaker", features, pdf_ids);
    chain::Reference reference = all.references[all.references.Find(utterance.utt_id).value()];
    for (int32_t& phone : reference.phones) phone = std::min(phone, 3);
    sequences.push_back(reference.phones);
    references[utterance.utt_id] = reference;
  }
  writer.Finish();
  auto graph = chain::DenominatorGraph::Build(fewer, hmm::EstimatePhoneNgrams(sequences, {}));
  chain::ChainData{fewer, std::move(graph), chain::References(std::move(references)), 3}.Save(folder_ / "fewer-chain");
  AdaptationOptions options = Options();
  options.train.sequence.chain_data = (folder_ / "fewer-chain").string();
  const AdaptationSpeech speech{.new_store = std::make_shared<const data::FrameStore>(folder_ / "fewer"),
                                .hmm_json = fewer.ToJson()};
  const AdaptationResult result =
      AdaptationRun(options, model_, speech, 1).Adapt("transfer", Config(), folder_ / "transfer", Sgd());
  EXPECT_TRUE(result.accepted) << result.verdict;
  const nn::Model adapted = nn::Model::Load(result.model);
  EXPECT_EQ(adapted.num_pdfs(), fewer.num_pdfs());
  EXPECT_EQ(adapted.log_priors, std::vector<float>(static_cast<size_t>(fewer.num_pdfs()), 0.0F));
}

TEST_F(ChainAdaptation, MeasuresWhatTrainingMeasured) {
  TrainingTask task = TaskFrom(model_);
  const auto criterion = SequenceTask::Open(task, Options().train);
  EvaluationData held_out{.store = fresh_, .utterances = {}, .context = {}, .heads = {}, .sequence = criterion};
  nn::Workspace workspace;
  const AdaptationRun run(Options(), model_, {.new_store = store_, .held_out_store = fresh_}, 1);
  EXPECT_EQ(run.MeasureNew(*model_).loss, Evaluate(model_->network, held_out, workspace).loss.loss());
}

TEST_F(ChainAdaptation, RhoHoldsTheModelNearToWhatItSaid) {
  const AdaptationResult free = Adapt("kld", "rho = [0.0]");
  const AdaptationResult held = Adapt("kld", "rho = [0.9]");
  EXPECT_LT(free.new_after.loss, held.new_after.loss);
  EXPECT_LT(held.new_after.loss, held.new_before.loss);
  EXPECT_LT(held.old_after.loss, free.old_after.loss);
}

TEST_F(ChainAdaptation, RefusesWhatCannotBe) {
  AdaptationOptions by_frames = Options();
  by_frames.train.sequence = {};
  EXPECT_THAT([&] { AdaptationRun(by_frames, model_, Speech(), 1); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("chain-data")));
  EXPECT_THAT([&] { Adapt("mix", ""); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("learns from chunks")));
}

}  // namespace
}  // namespace antiphon::train
