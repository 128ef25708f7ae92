// Sequence-discriminative training: its loss over minibatches of utterances, whole runs, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/file.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/sequence_data.h"
#include "train/sequence_loss.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

// One state per phone: as many pdf-ids as SyntheticData has.
hmm::HmmModel OneStatePhones() {
  const hmm::PhoneSet phones({"A", "B", "C", "D", "E", "F", "G"}, {"SIL"}, false);
  hmm::TopologyOptions options;
  options.num_states = options.num_silence_states = 1;
  const hmm::Topology topology(phones, options);
  return {phones, topology, hmm::ContextTree::Monophone(topology)};
}

class Sequence : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(hmm_.num_pdfs(), store_->num_pdfs());
    SequenceDataWriter writer(Lattices(), hmm_);
    for (size_t u = 0; u < store_->utterances().size(); ++u) {
      writer.Write(store_->utterances()[u].utt_id, Entry(u));
    }
    writer.Close();
  }

  // Each run of a pdf-id may have been one of two others instead.
  SequenceEntry Entry(size_t utterance) const {
    std::vector<int32_t> pdf_ids(static_cast<size_t>(store_->utterances()[utterance].num_frames));
    store_->ReadPdfIds(utterance, pdf_ids);
    SequenceEntry entry;
    for (const int32_t pdf : pdf_ids) entry.reference.push_back(TransitionOf(pdf));
    decode::Lattice& lattice = entry.lattice;
    lattice.states.emplace_back();
    for (auto begin = pdf_ids.begin(); begin != pdf_ids.end();) {
      const auto end = std::find_if(begin, pdf_ids.end(), [&](int32_t p) { return p != *begin; });
      const auto next = static_cast<int32_t>(lattice.states.size());
      for (const int other : {0, 1, 3}) {
        const std::vector<int32_t> ids(static_cast<size_t>(end - begin), TransitionOf((*begin + other) % 8));
        lattice.states.back().arcs.push_back({next, 0, {0.1 * other, 0.0}, lattice.AddAlignment(ids)});
      }
      lattice.states.emplace_back();
      begin = end;
    }
    lattice.states.back().is_final = true;
    return entry;
  }

  int32_t TransitionOf(int32_t pdf) const {
    for (int32_t id = 1; id <= hmm_.transitions().num_transition_ids(); ++id) {
      if (hmm_.transitions().Pdf(id) == pdf) return id;
    }
    return 0;
  }

  std::filesystem::path Lattices() const { return folder_ / "lattices"; }

  SequenceOptions Options(const std::string& criterion) const {
    SequenceOptions options;
    options.lattices = Lattices().string();
    options.criterion.criterion = criterion;
    options.criterion.acoustic_scale = 0.5;
    options.criterion.one_silence_class = false;
    return options;
  }

  std::shared_ptr<const nn::Model> Initial() {
    TrainOptions options = SmallOptions();
    options.schedule.epochs = 1;
    options.schedule.learning_rate = options.schedule.final_learning_rate = 0.05;
    TrainingTask task = SmallTask(store_, folder_ / "initial");
    task.hmm = hmm_;
    TrainHere(task, options);
    return std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(folder_ / "initial")));
  }

  TrainingTask From(std::shared_ptr<const nn::Model> model, const std::string& name) {
    TrainingTask task = TaskFrom(std::move(model));
    task.store = store_;
    task.folder = folder_ / name;
    task.optimizer = Config::Parse("type = \"sgd\"\n", "optimizer");
    return task;
  }

  TrainOptions RunOptions(const std::string& criterion) const {
    TrainOptions options = SmallOptions();
    options.sequence = Options(criterion);
    options.data.minibatch = 400;
    options.schedule.learning_rate = options.schedule.final_learning_rate = 1.0;
    options.dropout_schedule = "0";
    return options;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
  hmm::HmmModel hmm_ = OneStatePhones();
};

TEST_F(Sequence, LatticesComeBackAsTheyWereWritten) {
  const SequenceData data(Lattices(), hmm_);
  EXPECT_TRUE(data.Has("spk1-utt3"));
  EXPECT_FALSE(data.Has("nobody"));
  EXPECT_THROW(data.Get("nobody"), InputError);
  for (const size_t u : {size_t{0}, size_t{11}, store_->utterances().size() - 1}) {
    const SequenceEntry expected = Entry(u), found = data.Get(store_->utterances()[u].utt_id);
    EXPECT_EQ(found.reference, expected.reference);
    ASSERT_EQ(found.lattice.states.size(), expected.lattice.states.size());
    EXPECT_EQ(found.lattice.NumArcs(), expected.lattice.NumArcs());
  }
}

TEST_F(Sequence, RefusesAFileThatIsCutOff) {
  const std::string all = ReadFile(Lattices() / "lattices.ark");
  WriteFileAtomically(Lattices() / "lattices.ark", all.substr(0, all.size() / 2));
  EXPECT_THROW((SequenceData{Lattices(), hmm_}), InputError);
}

// A few bytes less, or others, can still be read as lattices.
TEST_F(Sequence, RefusesFilesThatAreNotWhatWasWritten) {
  for (const char* name : {"lattices.ark", "lattices.scp", "ali.ark", "ali.scp"}) {
    const std::filesystem::path file = Lattices() / name;
    const std::string all = ReadFile(file);
    std::string changed = all;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
    for (const std::string& now : {all.substr(0, all.size() - 3), changed}) {
      WriteFileAtomically(file, now);
      try {
        const SequenceData data(Lattices(), hmm_);
        ADD_FAILURE() << name << " was taken";
      } catch (const InputError& e) {
        EXPECT_NE(std::string(e.what()).find(std::string(name) + "' is not what"), std::string::npos) << e.what();
      }
    }
    WriteFileAtomically(file, all);
  }
  EXPECT_NO_THROW((SequenceData{Lattices(), hmm_}));
}

TEST_F(Sequence, RefusesLatticesOfAnotherModelAndThoseOfAnInterruptedRun) {
  const hmm::PhoneSet phones({"A", "B", "C", "D", "E", "F", "H"}, {"SIL"}, false);
  const hmm::Topology topology(phones, hmm::TopologyOptions{});
  const hmm::HmmModel other{phones, topology, hmm::ContextTree::Monophone(topology)};
  EXPECT_THROW((SequenceData{Lattices(), other}), InputError);
  WriteFileAtomically(Lattices() / "lattices.json", "{");
  EXPECT_THROW((SequenceData{Lattices(), hmm_}), InputError);
  std::filesystem::remove(Lattices() / "lattices.json");
  EXPECT_THROW((SequenceData{Lattices(), hmm_}), InputError);
  EXPECT_THROW((SequenceData{folder_ / "none", hmm_}), InputError);
}

// Rows in any order, with padding between them: the same loss, and the gradient of finite differences.
TEST_F(Sequence, FindsUtterancesInAnyOrderOfRows) {
  const auto data = std::make_shared<const SequenceData>(Lattices(), hmm_);
  const std::vector<float> priors(8, std::log(1.0f / 8));
  std::vector<int64_t> frames(203, -1);
  std::iota(frames.begin(), frames.begin() + 100, store_->utterances()[4].first_frame);
  std::iota(frames.begin() + 100, frames.begin() + 200, store_->utterances()[9].first_frame);
  Rng rng(5);
  Matrix logits(203, 8);
  for (int64_t i = 0; i < logits.size(); ++i) logits.data()[i] = static_cast<float>(rng.Normal());
  for (const char* criterion : {"mmi", "smbr"}) {
    const SequenceOptions options = Options(criterion);
    UtteranceLoss loss(store_, std::make_shared<LatticeCriterion>(data, hmm_, priors, options.criterion), 0.3);
    loss.SetFrames(frames);
    Matrix derivative(203, 8);
    const nn::LossResult result = loss.Compute(logits, {}, derivative);
    EXPECT_EQ(result.weight_sum, 200);
    for (const int row : {0, 57, 150, 199}) {
      for (int k = 0; k < 8; ++k) {
        const float at = logits(row, k);
        logits(row, k) = at + 0.01f;
        const double above = loss.Compute(logits, {}, {}).loss_sum;
        logits(row, k) = at - 0.01f;
        const double below = loss.Compute(logits, {}, {}).loss_sum;
        logits(row, k) = at;
        EXPECT_NEAR(200 * derivative(row, k), (above - below) / 0.02, 2e-3) << criterion << " " << row << " " << k;
      }
    }
    for (int k = 0; k < 8; ++k) EXPECT_EQ(derivative(201, k), 0);

    std::vector<size_t> order(203);
    std::iota(order.begin(), order.end(), size_t{0});
    rng.Shuffle(std::span(order));
    std::vector<int64_t> shuffled_frames;
    Matrix shuffled(203, 8), shuffled_derivative(203, 8);
    for (size_t i = 0; i < order.size(); ++i) {
      shuffled_frames.push_back(frames[order[i]]);
      std::ranges::copy(logits.Row(static_cast<int64_t>(order[i])), shuffled.Row(static_cast<int64_t>(i)).begin());
    }
    loss.SetFrames(shuffled_frames);
    EXPECT_EQ(loss.Compute(shuffled, {}, shuffled_derivative).loss_sum, result.loss_sum);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(shuffled_derivative(static_cast<int64_t>(i), 3), derivative(static_cast<int64_t>(order[i]), 3));
    }
  }
}

TEST_F(Sequence, RefusesPartOfAnUtterance) {
  const auto data = std::make_shared<const SequenceData>(Lattices(), hmm_);
  const auto criterion =
      std::make_shared<LatticeCriterion>(data, hmm_, std::vector<float>(8, -2.0f), Options("mmi").criterion);
  UtteranceLoss loss(store_, criterion, 0.0);
  std::vector<int64_t> frames(99);
  std::iota(frames.begin(), frames.end(), store_->utterances()[4].first_frame + 1);
  loss.SetFrames(frames);
  EXPECT_THROW(loss.Compute(Matrix(99, 8), {}, {}), InputError);
}

TEST_F(Sequence, LowersTheLossOfHeldOutUtterances) {
  const auto initial = Initial();
  for (const char* criterion : {"mmi", "smbr", "mpfe"}) {
    TrainOptions options = RunOptions(criterion);
    options.schedule.epochs = 1;
    options.schedule.learning_rate = options.schedule.final_learning_rate = 1e-9;
    const double before = TrainHere(From(initial, "before"), options).held_out_loss;
    const TrainingSummary after = TrainHere(From(initial, criterion), RunOptions(criterion));
    EXPECT_LT(after.held_out_loss, 0.8 * before) << criterion;
    const nn::Model model = nn::Model::Load(ModelFile(folder_ / criterion));
    EXPECT_EQ(model.log_priors, initial->log_priors);
  }
}

TEST_F(Sequence, TwoWorkersGiveTheSameBitsWithAnyNumberOfThreads) {
  const auto initial = Initial();
  std::vector<uint64_t> hashes;
  for (const int threads : {1, 3}) {
    TrainingTask task = From(initial, "workers");
    task.parallel = Config::Parse("method = \"ssgd\"\n", "parallel");
    uint64_t hash = 0;
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      SetComputeThreads(threads);
      const TrainingSummary mine = Trainer(task, RunOptions("smbr"), comm).Run(false);
      if (comm.rank() == 0) hash = mine.model_hash;
    });
    hashes.push_back(hash);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST_F(Sequence, SecondOrderAndAveragedNaturalGradientsLowerItToo) {
  const auto initial = Initial();
  const std::pair<const char*, const char*> ways[] = {
      {"mmi", "method = 'hessian-free'\ndamping = 0.1\ncurvature-minibatches = 3\ncheck-minibatches = 2\n"},
      {"smbr", "method = 'hessian-free'\ndamping = 0.1\ncurvature-minibatches = 3\ncheck-minibatches = 2\n"},
      {"smbr", "method = 'natural-gradient-averaging'\nsync-period = 2\ncombine = 3\ncombine-frames = 200\n"}};
  for (const auto& [criterion, method] : ways) {
    TrainOptions options = RunOptions(criterion);
    options.schedule.epochs = 1;
    options.schedule.learning_rate = options.schedule.final_learning_rate = 1e-9;
    const double before = TrainHere(From(initial, "before"), options).held_out_loss;
    TrainingTask task = From(initial, "run");
    task.parallel = Config::Parse(method, "parallel");
    if (task.parallel.Text("method") == "natural-gradient-averaging") {
      task.optimizer = Config::Parse("type = 'natural-gradient'\n[step]\nmax-change = 2.0\n", "optimizer");
    }
    std::array<TrainingSummary, 2> summaries;
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      summaries[static_cast<size_t>(comm.rank())] = Trainer(task, RunOptions(criterion), comm).Run(false);
    });
    EXPECT_LT(summaries[0].held_out_loss, 0.9 * before) << criterion << ", " << method;
    EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
  }
}

TEST_F(Sequence, RefusesNetworksWithAStrideByTheirStride) {
  Initial();
  auto strided = std::make_shared<nn::Model>(nn::Model::Load(ModelFile(folder_ / "initial")));
  const Config layers =
      Config::Parse("layer = [{type='tdnn', dim=8, offsets=[-1, 0, 1], stride=3}, {type='affine'}]\n", "n");
  strided->network = nn::Network(layers, strided->feature_dim, strided->num_pdfs(), 1);
  strided->left_context = strided->right_context = 0;
  TrainOptions options = RunOptions("mmi");
  options.data.left_context = options.data.right_context = 0;
  try {
    TrainHere(From(strided, "strided"), options);
    FAIL() << "taken";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("one for every 3 frames"), std::string::npos) << e.what();
  }
}

TEST_F(Sequence, SaysWhatItNeeds) {
  const auto initial = Initial();
  TrainOptions options = RunOptions("mmi");
  TrainingTask anew = SmallTask(store_, folder_ / "anew");
  anew.hmm = hmm_;
  EXPECT_THROW(TrainHere(anew, options), UsageError);
  options.sequence.lattices.clear();
  EXPECT_THROW(TrainHere(From(initial, "run"), options), UsageError);
  options = RunOptions("none");
  EXPECT_THROW(TrainHere(From(initial, "run"), options), UsageError);
  options = RunOptions("mmi");
  options.sequence.chain_data = options.sequence.lattices;
  EXPECT_THROW(TrainHere(From(initial, "run"), options), UsageError) << "of which only one is looked at";
  options = RunOptions("mmi");
  options.sequence.lattices = (folder_ / "elsewhere").string();
  EXPECT_THROW(TrainHere(From(initial, "run"), options), Error);
}

}  // namespace
}  // namespace antiphon::train
