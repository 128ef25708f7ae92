// Chain training as a whole: a strided network learns a small language of phones, and what cannot be is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "chain_task.h"
#include "report/metrics.h"
#include "train/chunk_loss.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

using ::testing::HasSubstr;

TEST_F(ChainTraining, RaisesTheObjective) {
  TrainOptions still = Options();
  still.schedule.learning_rate = still.schedule.final_learning_rate = 1e-6;
  still.schedule.epochs = 1;
  const double before = TrainHere(Task("still"), still).held_out_loss;
  const double after = TrainHere(Task("run"), Options()).held_out_loss;
  EXPECT_GT(after, 0.0);
  EXPECT_LT(after, 0.6 * before);
  // The model says for itself how it is to be decoded.
  const nn::Model model = nn::Model::Load(ModelFile(folder_ / "run"));
  EXPECT_EQ(model.frame_subsampling, 3);
  EXPECT_TRUE(hmm::HmmModel::FromJson(model.hmm_json).topology().IsChain());
  for (const float p : model.log_priors) EXPECT_EQ(p, 0.0f);
}

TEST_F(ChainTraining, ABranchLearnsTheNumeratorsPosteriorsAndIsLeftOutOfTheModel) {
  TrainingTask task = Task("branch");
  task.network = Config::Parse(
      "layer = [{type='tdnn', dim=16, offsets=[-1, 0, 1], stride=3}, {type='relu'}, {type='side-task', name='branch', "
      "task='cross-entropy', weight=0.5, layers=[{type='affine'}]}, {type='affine'}]\n",
      "n");
  TrainOptions options = Options();
  options.log_steps = 1;
  TrainHere(std::move(task), options);
  std::vector<double> losses;
  for (const report::MetricsRecord& record : report::ReadMetrics(folder_ / "branch" / "metrics.jsonl")) {
    if (record.Has("branch_loss")) losses.push_back(*record.Number("branch_loss"));
  }
  ASSERT_GT(losses.size(), 20u);
  EXPECT_NEAR(losses.front(), std::log(8.0), 0.5);  // it knows nothing yet of 8 tied states
  EXPECT_LT(losses.back(), 0.7 * losses.front());
  const nn::Model model = nn::Model::Load(ModelFile(folder_ / "branch"));
  EXPECT_EQ(model.network.ToToml().find("side-task"), std::string::npos);
}

TEST_F(ChainTraining, KnowsWhichOutputsARowIs) {
  const auto data = std::make_shared<const chain::ChainData>(chain::ChainData::Load(folder_ / "chain"));
  data::MinibatchOptions options = Options().data;
  options.carry_state = false;
  const data::MinibatchPool pool(store_, options, 1, 1, {}, data::InputNormalisation{}, {1, 1, 3});
  ChunkLoss loss(store_, data, {});
  chain::ChainLoss direct(data, {});
  data::MinibatchBuffer buffer;
  pool.Fill(0, 0, 0, buffer);
  const data::Minibatch& minibatch = buffer.minibatch;
  const Matrix outputs(std::ssize(minibatch.frame_ids), data->model.num_pdfs());
  loss.SetMinibatch(minibatch);
  const nn::LossResult found = loss.Compute(outputs, {}, {});
  std::vector<chain::ChainChunk> chunks;
  const auto streams = static_cast<size_t>(minibatch.sequences->streams);
  for (size_t s = 0; s < streams; ++s) {
    const int64_t id = minibatch.frame_ids[s];
    for (const auto& utterance : store_->utterances()) {
      if (id < utterance.first_frame || id >= utterance.first_frame + utterance.num_frames) continue;
      chunks.push_back({data->references.Find(utterance.utt_id),
                        {static_cast<int>(id - utterance.first_frame), minibatch.sequences->lengths[s]},
                        1.0F});
    }
  }
  const chain::ChainResult expected = direct.Compute(chunks, outputs, {});
  EXPECT_EQ(found.loss_sum, expected.loss_sum);
  EXPECT_EQ(found.weight_sum, expected.weight_sum);
  EXPECT_GT(found.weight_sum, 0);

  // Kept as numbers, the minibatch can be computed again after others.
  const std::vector<int64_t> rows = loss.Rows();
  data::MinibatchBuffer other;
  pool.Fill(0, 0, 1, other);
  loss.SetMinibatch(other.minibatch);
  EXPECT_NE(loss.Rows(), rows);
  loss.SetRows(rows);
  EXPECT_EQ(loss.Rows(), rows);
  EXPECT_EQ(loss.Compute(outputs, {}, {}).loss_sum, expected.loss_sum);

  // So can some of its streams.
  const int last = minibatch.sequences->streams;
  const std::vector<int64_t> first_rows = loss.RowsOfStreams(0, 1, last),
                             other_rows = loss.RowsOfStreams(1, last, last);
  loss.SetRows(first_rows);
  nn::LossResult parts = loss.Compute(outputs.view().Rows(0, minibatch.sequences->frames), {}, {});
  loss.SetRows(other_rows);
  parts += loss.Compute(outputs.view().Rows(0, minibatch.sequences->frames * (last - 1)), {}, {});
  EXPECT_NEAR(parts.loss_sum, expected.loss_sum, 1e-6 * std::abs(expected.loss_sum));
  EXPECT_EQ(parts.weight_sum, expected.weight_sum);
}

TEST_F(ChainTraining, NaturalGradientAveragingCombinesByTheCriterion) {
  TrainOptions still = Options();
  still.schedule.learning_rate = still.schedule.final_learning_rate = 1e-6;
  still.schedule.epochs = 1;
  const double before = TrainHere(Task("still"), still).held_out_loss;
  TrainingTask task = Task("averaged");
  task.optimizer = Config::Parse("type = 'natural-gradient'\n[step]\nmax-change = 2.0\n", "optimizer");
  task.parallel = Config::Parse(
      "method = 'natural-gradient-averaging'\nworkers = 2\nsync-period = 5\ncombine = 4\ncombine-frames = 200\n", "p");
  const auto alone = comm::ProcessGroup::Alone();
  std::array<TrainingSummary, 2> summaries;
  RunWorkers(task.parallel, {}, 1, *alone, [&](comm::Communicator& comm) {
    summaries[static_cast<size_t>(comm.rank())] = Trainer(task, Options(), comm).Run(false);
  });
  EXPECT_LT(summaries[0].held_out_loss, 0.7 * before);
  EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
}

TEST_F(ChainTraining, HessianFreeStepsRaiseTheObjective) {
  TrainOptions still = Options();
  still.schedule.learning_rate = still.schedule.final_learning_rate = 1e-6;
  still.schedule.epochs = 1;
  const double before = TrainHere(Task("still"), still).held_out_loss;
  TrainingTask task = Task("second-order");
  task.parallel = Config::Parse("method = 'hessian-free'\nworkers = 2\ndamping = 0.1\n", "p");
  const auto alone = comm::ProcessGroup::Alone();
  std::array<TrainingSummary, 2> summaries;
  RunWorkers(task.parallel, {}, 1, *alone, [&](comm::Communicator& comm) {
    summaries[static_cast<size_t>(comm.rank())] = Trainer(task, Options(), comm).Run(false);
  });
  EXPECT_LT(summaries[0].held_out_loss, 0.7 * before);
  EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
}

TEST_F(ChainTraining, RefusesWhatCannotBe) {
  TrainOptions options = Options();
  options.sequence.chain_data.clear();
  EXPECT_THAT(Refusal(Task("a"), options), HasSubstr("antiphon chain"));
  options = Options();
  options.sequence.lattices = "x";
  EXPECT_THAT(Refusal(Task("a"), options), HasSubstr("does not look at sequence.lattices"));
  options = Options();
  options.sequence.cross_entropy_weight = 0.1;
  EXPECT_THAT(Refusal(Task("a"), options), HasSubstr("cross-entropy-weight"));
  options = Options();
  options.data.chunk_frames = 0;
  EXPECT_THAT(Refusal(Task("a"), options), HasSubstr("data.chunk-frames"));
  TrainingTask task = Task("b");
  task.network = Config::Parse("layer = [{type='tdnn', dim=8, offsets=[-1, 0, 1]}, {type='affine'}]\n", "n");
  EXPECT_THAT(Refusal(task, Options()), HasSubstr("one for every 1"));
  task = Task("b");
  task.hmm = hmm::HmmModel(
      task.hmm->phones(), task.hmm->topology(),
      hmm::ContextTree(1, {{0, 0, {}, -1, -1}, {1, 0, {}, -1, -1}}, {{}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}));
  EXPECT_NE(Refusal(task, Options()), "");
}

}  // namespace
}  // namespace antiphon::train
