// Training that begins with a model, has teachers, scores several frames at once, or holds weights at zero.
#include "train/warm_start.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "compress/method.h"
#include "compress/network_parts.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/compression.h"
#include "train/soft_targets.h"

namespace antiphon::train {
namespace {

class Further : public ::testing::Test {
 protected:
  nn::Model Trained(const std::string& name, const TrainOptions& options, TrainingTask task) {
    task.folder = folder_ / name;
    summary_ = TrainHere(task, options);
    return nn::Model::Load(ModelFile(folder_ / name));
  }
  TrainingTask Task() { return SmallTask(store_, folder_ / "run"); }
  TrainingTask From(const nn::Model& model) {
    TrainingTask task = TaskFrom(std::make_shared<const nn::Model>(model.Clone()));
    task.store = store_;
    task.optimizer = Task().optimizer;
    return task;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_ = MakeSyntheticStore(folder_ / "store");
  TrainingSummary summary_;
};

TEST_F(Further, BeginsWhereTheModelEnded) {
  const nn::Model model = Trained("a", SmallOptions(), Task());
  const double loss = summary_.held_out_loss;
  TrainOptions options = SmallOptions();
  options.schedule.learning_rate = options.schedule.final_learning_rate = 1e-9;
  options.schedule.epochs = 1;
  options.dropout_schedule = "0";
  const nn::Model again = Trained("b", options, From(model));
  EXPECT_NEAR(summary_.held_out_loss, loss, 0.01);
  EXPECT_EQ(again.network.ToToml(), model.network.ToToml());
}

TEST_F(Further, AStudentLearnsFromPosteriorsAlone) {
  const nn::Model model = Trained("teacher", SmallOptions(), Task());
  const double taught = summary_.held_out_accuracy;
  TrainOptions options = SmallOptions();
  options.teacher.weight = 1;
  options.teacher.temperature = 2;
  options.schedule.epochs = 4;
  TrainingTask task = Task();
  task.teachers = {std::make_shared<const nn::Model>(model.Clone())};
  Trained("student", options, task);
  EXPECT_GT(summary_.held_out_accuracy, taught - 0.05);
}

TEST_F(Further, AveragedModelsAreCombinedByWhatTheTeacherSays) {
  const nn::Model model = Trained("teacher", SmallOptions(), Task());
  const double taught = summary_.held_out_accuracy;
  for (const double weight : {0.5, 1.0}) {
    TrainOptions options = SmallOptions();
    options.teacher.weight = weight;
    options.teacher.temperature = 2;
    TrainingTask task = Task();
    task.folder = folder_ / "averaged";
    task.teachers = {std::make_shared<const nn::Model>(model.Clone())};
    task.optimizer = Config::Parse("type = 'natural-gradient'\n[step]\nmax-change = 2.0\n", "optimizer");
    task.parallel = Config::Parse("method = 'natural-gradient-averaging'\nsync-period = 3\ncombine = 4\n", "parallel");
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      const TrainingSummary mine = Trainer(task, options, comm).Run(false);
      if (comm.rank() == 0) {
        EXPECT_GT(mine.held_out_accuracy, taught - 0.1) << weight;
      }
    });
  }
}

TEST_F(Further, WithoutWeightTheTeacherChangesNothing) {
  const nn::Model model = Trained("a", SmallOptions(), Task());
  TrainOptions options = SmallOptions();
  options.teacher.weight = 0;
  TrainingTask task = Task();
  task.teachers = {std::make_shared<const nn::Model>(model.Clone())};
  EXPECT_EQ(Trained("b", options, task).network.Hash(), model.network.Hash());
}

TEST_F(Further, RefusesATeacherOfAnotherTask) {
  const nn::Model model = Trained("a", SmallOptions(), Task());
  TrainOptions options = SmallOptions();
  options.data.left_context = 0;
  TrainingTask task = Task();
  task.teachers = {std::make_shared<const nn::Model>(model.Clone())};
  EXPECT_THROW(Trained("b", options, task), UsageError);
}

TEST_F(Further, ATeacherWhoseHeadsAreForOtherFramesTeachesByWhatIsStored) {
  nn::Model model;
  model.network = nn::Network(Config::Parse("layer = [{type = 'affine'}]", "network"), 3 * 6, 2 * 8, 1);
  model.feature_dim = 6;
  model.left_context = model.right_context = 1;
  model.frames_per_forward = 2;
  model.first_frame_offset = -1;
  const auto teacher = std::make_shared<const nn::Model>(std::move(model));
  for (const int offset : {-1, 0}) {
    const bool same = offset == -1;
    const auto teach = [&] { TargetMaker(store_, {2, offset}, {teacher}, {}, {1, 1}, Precision::kFp32); };
    if (same) {
      EXPECT_NO_THROW(teach());
    } else {
      EXPECT_THROW(teach(), UsageError);
    }
    TrainOptions options = SmallOptions();
    options.frames_per_forward = 2;
    options.first_frame_offset = offset;
    TrainingTask task = From(*teacher);
    AddTeacher(teacher, folder_ / "targets.bin", 4, options, task);
    EXPECT_EQ(task.teachers.size(), same ? 1U : 0U);
    EXPECT_EQ(options.teacher.targets, same ? "" : (folder_ / "targets.bin").string());
  }
}

TEST_F(Further, SeveralHeadsLearnTheirFrames) {
  TrainOptions options = SmallOptions();
  options.frames_per_forward = 3;
  options.first_frame_offset = -1;
  options.data.left_context = options.data.right_context = 2;
  options.schedule.epochs = 5;
  const nn::Model model = Trained("heads", options, Task());
  EXPECT_EQ(model.frames_per_forward, 3);
  EXPECT_EQ(model.first_frame_offset, -1);
  EXPECT_EQ(model.network.out_dim(), 3 * model.num_pdfs());
  EXPECT_GT(summary_.held_out_accuracy, 0.6);
}

TEST_F(Further, PdfIdsOfHeadsAreThoseOfTheFramesAround) {
  data::MinibatchOptions options;
  options.minibatch = 37;
  const data::MinibatchPool pool(store_, options, 3);
  data::MinibatchBuffer buffer;
  pool.Fill(0, 0, 1, buffer);
  TargetMaker maker(store_, {3, -1});
  const nn::LossTargets targets = maker.Make(buffer.minibatch);
  ASSERT_EQ(targets.pdf_ids.size(), 3 * buffer.minibatch.pdf_ids.size());
  for (size_t n = 0; n < buffer.minibatch.pdf_ids.size(); ++n) {
    EXPECT_EQ(targets.pdf_ids[3 * n + 1], buffer.minibatch.pdf_ids[n]);
    const int64_t frame = buffer.minibatch.frame_ids[n];
    const auto u = static_cast<size_t>(frame / 100);  // all utterances have 100 frames
    const auto t = static_cast<int>(frame % 100);
    EXPECT_EQ(targets.pdf_ids[3 * n], store_->PdfId(u, std::max(t - 1, 0)));
    EXPECT_EQ(targets.pdf_ids[3 * n + 2], store_->PdfId(u, std::min(t + 1, 99)));
  }
}

TEST_F(Further, StoredTargetsAreTheTeachersLargestPosteriors) {
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", SmallOptions(), Task()));
  const double kept = SoftTargets::Write(folder_ / "all.bin", store_, {teacher}, {.top = 8, .precision = "fp32"});
  EXPECT_NEAR(kept, 1, 1e-5) << "all of 8 classes";
  const double three = SoftTargets::Write(folder_ / "three.bin", store_, {teacher}, {.top = 3, .precision = "fp32"});
  EXPECT_LT(three, kept);
  const SoftTargets all(folder_ / "all.bin", *store_), few(folder_ / "three.bin", *store_);
  data::MinibatchOptions options;
  options.left_context = options.right_context = 1;
  const data::MinibatchPool pool(store_, options, 3);
  data::MinibatchBuffer buffer;
  pool.Fill(0, 0, 1, buffer);
  TeacherOptions as_it_is;
  as_it_is.weight = 1;
  as_it_is.temperature = 2;
  TargetMaker live(store_, {}, {teacher}, as_it_is, {1, 1}, Precision::kFp32);
  const Matrix expected(live.Make(buffer.minibatch).soft);
  std::vector<float> row(8);
  for (int64_t n = 0; n < expected.rows(); ++n) {
    all.Read(buffer.minibatch.frame_ids[static_cast<size_t>(n)], 2, row);
    for (int64_t k = 0; k < 8; ++k) EXPECT_NEAR(row[static_cast<size_t>(k)], expected(n, k), 1e-3);
    few.Read(buffer.minibatch.frame_ids[static_cast<size_t>(n)], 2, row);
    EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-5);
    EXPECT_EQ(std::count(row.begin(), row.end(), 0.0F), 5);
  }
}

TEST_F(Further, StoredTargetsTeachLikeTheTeacherAndSeveralHeads) {
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", SmallOptions(), Task()));
  const double taught = summary_.held_out_accuracy;
  SoftTargets::Write(folder_ / "t.bin", store_, {teacher}, {.top = 4, .precision = "fp32"});
  TrainOptions options = SmallOptions();
  options.teacher.weight = 1;
  options.teacher.targets = (folder_ / "t.bin").string();
  options.schedule.epochs = 4;
  Trained("student", options, Task());
  EXPECT_GT(summary_.held_out_accuracy, taught - 0.05);
  options.frames_per_forward = 2;
  options.data.left_context = options.data.right_context = 2;
  Trained("heads", options, Task());
  EXPECT_GT(summary_.held_out_accuracy, 0.6);
}

constexpr const char* kFurtherLstm =
    "layer = [{type='tdnn', dim=16}, {type='lstm', dim=24, projection=12}, {type='splice', offsets=[0, 2]}, "
    "{type='affine'}]";

TrainOptions RecurrentOptions() {
  TrainOptions options = SmallOptions();
  options.data.left_context = options.data.right_context = 0;
  options.data.chunk_frames = 15;
  options.data.minibatch = 75;  // five streams for 48 utterances: some end before the others, and are padded
  options.schedule.epochs = 4;
  return options;
}

// The layers themselves, over a whole utterance, as an oracle for what goes through the scorer.
Matrix PosteriorsOfUtterance(const nn::Model& model, const data::FrameStore& store, size_t u) {
  const int frames = store.utterances()[u].num_frames;
  const TimeContext needed = model.network.time_context();
  Matrix features(frames, store.feat_dim()), x(needed.InputFrames(frames), store.feat_dim());
  store.ReadFrames(u, 0, features);
  for (int64_t t = 0; t < x.rows(); ++t) {
    const auto from = features.Row(std::clamp<int64_t>(t - needed.left, 0, frames - 1));
    std::copy(from.begin(), from.end(), x.Row(t).begin());
  }
  const SequenceLayout layout{.streams = 1, .frames = frames};
  nn::ExecContext context;
  context.sequences = &layout;
  nn::Workspace ws;
  Matrix p(model.network.Forward(context, x, ws));
  for (int64_t t = 0; t < p.rows(); ++t) {
    double sum = 0;
    for (float& z : p.Row(t)) sum += static_cast<double>(z = std::exp(z));
    for (float& z : p.Row(t)) z = static_cast<float>(static_cast<double>(z) / sum);
  }
  return p;
}

TEST_F(Further, ARecurrentTeacherIsStored) {
  TrainingTask task = Task();
  task.network = Config::Parse(kFurtherLstm, "network");
  const auto recurrent = std::make_shared<const nn::Model>(Trained("lstm", RecurrentOptions(), task));
  const auto window = std::make_shared<const nn::Model>(Trained("window", SmallOptions(), Task()));
  SoftTargets::Write(folder_ / "one.bin", store_, {recurrent}, {.top = 8, .precision = "fp32"});
  SoftTargets::Write(folder_ / "two.bin", store_, {recurrent, window}, {.top = 8, .precision = "fp32"});
  SoftTargets::Write(folder_ / "other.bin", store_, {window}, {.top = 8, .precision = "fp32"});
  const SoftTargets one(folder_ / "one.bin", *store_), two(folder_ / "two.bin", *store_),
      other(folder_ / "other.bin", *store_);
  std::vector<float> of_one(8), of_two(8), of_other(8);
  for (const size_t u : {size_t{0}, size_t{29}}) {
    const Matrix expected = PosteriorsOfUtterance(*recurrent, *store_, u);
    for (int64_t t = 0; t < expected.rows(); ++t) {
      const int64_t frame = store_->utterances()[u].first_frame + t;
      one.Read(frame, 1, of_one);
      two.Read(frame, 1, of_two);
      other.Read(frame, 1, of_other);
      for (size_t k = 0; k < 8; ++k) {
        EXPECT_NEAR(of_one[k], expected(t, static_cast<int64_t>(k)), 1e-3) << u << " " << t;
        EXPECT_NEAR(of_two[k], (of_one[k] + of_other[k]) / 2, 2e-3) << u << " " << t;
      }
    }
  }
}

TEST_F(Further, ARecurrentTeacherTeachesNetworksOfAllKinds) {
  TrainingTask task = Task();
  task.network = Config::Parse(kFurtherLstm, "network");
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", RecurrentOptions(), task));
  const double taught = summary_.held_out_accuracy;
  SoftTargets::Write(folder_ / "t.bin", store_, {teacher}, {.top = 4, .precision = "fp32"});
  TrainOptions recurrent = RecurrentOptions(), window = SmallOptions();
  for (TrainOptions* options : {&recurrent, &window}) {
    options->teacher.weight = 1;
    options->teacher.targets = (folder_ / "t.bin").string();
  }
  Trained("recurrent", recurrent, task);
  EXPECT_GT(summary_.held_out_accuracy, taught - 0.05);
  window.data.left_context = window.data.right_context = 3;
  window.schedule.epochs = 4;
  Trained("window", window, Task());
  EXPECT_GT(summary_.held_out_accuracy, taught - 0.1);
  // While it trains, a student cannot ask a teacher that sees other frames than itself.
  TrainOptions live = RecurrentOptions();
  task.teachers = {teacher};
  EXPECT_THROW(Trained("live", live, task), UsageError);
}

TEST_F(Further, StoredTargetsOfChunksAreThoseOfTheirFrames) {
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", SmallOptions(), Task()));
  SoftTargets::Write(folder_ / "t.bin", store_, {teacher}, {.top = 8, .precision = "fp32"});
  const SoftTargets stored(folder_ / "t.bin", *store_);
  data::MinibatchOptions chunks = RecurrentOptions().data;
  TeacherOptions options;
  options.weight = 1;
  options.targets = (folder_ / "t.bin").string();
  TargetMaker maker(store_, {}, {}, options, {}, Precision::kFp32);
  data::MinibatchStream stream(std::make_shared<const data::MinibatchPool>(store_, chunks, 3), 0, 0);
  std::vector<float> expected(8);
  int64_t padded = 0;
  while (data::Minibatch* minibatch = stream.Next()) {
    const ConstMatrixView soft = maker.Make(*minibatch).soft;
    ASSERT_EQ(soft.rows(), std::ssize(minibatch->frame_ids));
    for (int64_t n = 0; n < soft.rows(); ++n) {
      const int64_t frame = minibatch->frame_ids[static_cast<size_t>(n)];
      std::ranges::fill(expected, 0.0F);
      if (frame >= 0) stored.Read(frame, 1, expected);
      padded += frame < 0 ? 1 : 0;
      for (int64_t k = 0; k < 8; ++k) ASSERT_EQ(soft(n, k), expected[static_cast<size_t>(k)]) << frame;
    }
  }
  EXPECT_GT(padded, 0);
}

TEST_F(Further, AMissingOrForeignFileOfTargetsIsRefused) {
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", SmallOptions(), Task()));
  SoftTargets::Write(folder_ / "t.bin", store_, {teacher}, {.top = 4, .precision = "fp32"});
  const auto other = MakeSyntheticStore(folder_ / "other", {.utterances_per_speaker = 7});
  EXPECT_THROW(SoftTargets(folder_ / "t.bin", *other), InputError);
  EXPECT_THROW(SoftTargets(folder_ / "none.bin", *store_), Error);
  const std::string whole = ReadFile(folder_ / "t.bin");
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{64}, whole.size() - 1}) {
    WriteFileAtomically(folder_ / "cut.bin", whole.substr(0, bytes));
    EXPECT_THROW(SoftTargets(folder_ / "cut.bin", *store_), InputError) << bytes;
  }
}

// Speech without alignment: nothing may be learnt from its stand-in labels.
TEST_F(Further, AStoreWithoutAlignmentIsForTeachersOnly) {
  const auto teacher = std::make_shared<const nn::Model>(Trained("teacher", SmallOptions(), Task()));
  const double taught = summary_.held_out_accuracy;
  data::FrameStoreWriter writer(folder_ / "speech", 6, 8, {.labelled = false});
  for (size_t u = 0; u < store_->utterances().size(); ++u) {
    Matrix frames(store_->utterances()[u].num_frames, 6);
    store_->ReadFrames(u, 0, frames);
    const std::vector<int32_t> stand_ins(static_cast<size_t>(frames.rows()), 0);
    writer.Add(store_->utterances()[u].utt_id, "speaker", frames, stand_ins);
  }
  writer.Finish();
  TrainingTask task = Task();
  task.store = std::make_shared<const data::FrameStore>(folder_ / "speech");
  EXPECT_FALSE(task.store->labelled());
  task.held_out_store = store_;
  TrainOptions options = SmallOptions();
  options.priors = PriorSource::kPosteriors;
  options.teacher.weight = 1;
  EXPECT_THROW(Trained("nobody", options, task), UsageError) << "no teacher";
  task.teachers = {teacher};
  options.teacher.weight = 0.5;
  EXPECT_THROW(Trained("half", options, task), UsageError);
  options.teacher.weight = 1;
  options.schedule.epochs = 4;
  const nn::Model student = Trained("student", options, task);
  EXPECT_GT(summary_.held_out_accuracy, taught - 0.05);
  EXPECT_LT(*std::max_element(student.log_priors.begin(), student.log_priors.end()), -0.5F);
  options.priors = PriorSource::kAlignment;
  EXPECT_THROW(Trained("priors", options, task), UsageError);
}

TEST_F(Further, ACompressedModelIsMeasuredOnWhatItsTrainingHeldOut) {
  TrainingTask task = Task();
  task.seed = 5;
  TrainOptions training = SmallOptions();
  training.held_out.by = HeldOutUnit::kUtterance;
  training.held_out.fraction = 0.1;
  const auto model = std::make_shared<const nn::Model>(Trained("a", training, task));
  CompressionOptions options;
  const CompressionRun run(options, model, store_, nullptr, 1);
  EXPECT_NEAR(run.Measure(*model).frame_accuracy, summary_.held_out_accuracy, 1e-6) << "another seed, other defaults";
  // Retraining holds it out too, and its model says so.
  options.train.schedule.epochs = 1;
  options.train.data.minibatch = 64;
  const CompressionResult result =
      CompressionRun(options, model, store_, nullptr, 1)
          .Compress("prune", Config::Parse("sparsity = 0.5\nfirst = true", "prune"), folder_ / "pruned",
                    Config::Parse("type = 'natural-gradient'", "optimizer"));
  EXPECT_EQ(nn::Model::Load(result.model).descriptions.at("held_out"), model->descriptions.at("held_out"));
  // What a person says holds.
  options.own_held_out = true;
  options.train.held_out = {.by = HeldOutUnit::kUtterance, .fraction = 0.4};
  const CompressionRun own(options, model, store_, nullptr, 1);
  EXPECT_NE(own.Measure(*model).loss, run.Measure(*model).loss);
}

// Compressed, retrained, measured: what the command does.
TEST_F(Further, ACompressedModelIsRetrainedWithItsZeros) {
  const auto model = std::make_shared<const nn::Model>(Trained("a", SmallOptions(), Task()));
  CompressionOptions options;
  options.train.data.minibatch = 64;
  options.train.held_out.fraction = 0.2;
  const CompressionRun run(options, model, store_, nullptr, 1);
  const CompressionResult result =
      run.Compress("prune", Config::Parse("sparsity = 0.8\nfirst = true", "prune"), folder_ / "pruned",
                   Config::Parse("type = 'natural-gradient'", "optimizer"));
  EXPECT_NEAR(result.before.frame_accuracy, summary_.held_out_accuracy, 1e-3) << "the same speakers are held out";
  EXPECT_GT(result.retrained.frame_accuracy, result.compressed.frame_accuracy);
  EXPECT_LT(result.retrained.parameters, result.before.parameters / 3);
  const nn::Model pruned = nn::Model::Load(result.model);
  EXPECT_NE(pruned.descriptions.at("compressed_by").find("prune"), std::string::npos);
  int64_t zeros = 0;
  for (const compress::LayerParts& p : compress::TakeApart(pruned.network)) {
    if (p.type != "sparse-affine") continue;
    for (int64_t i = 0; i < p.weight().size(); ++i) zeros += p.weight().data()[i] == 0 ? 1 : 0;
  }
  EXPECT_GE(zeros, static_cast<int64_t>(0.8 * (18 * 24 + 24 * 8)) - 2);
}

TEST_F(Further, ACompressedRecurrentModelIsTaughtByWhatItWas) {
  TrainingTask task = Task();
  task.network = Config::Parse(kFurtherLstm, "network");
  const auto model = std::make_shared<const nn::Model>(Trained("lstm", RecurrentOptions(), task));
  CompressionOptions options;
  options.train.held_out.fraction = 0.2;
  options.train.teacher.weight = 1;
  const CompressionRun run(options, model, store_, nullptr, 1);
  const CompressionResult result =
      run.Compress("prune", Config::Parse("sparsity = 0.95\nfirst = true", "prune"), folder_ / "pruned",
                   Config::Parse("type = 'natural-gradient'", "optimizer"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "pruned" / "targets.bin"));
  EXPECT_GT(result.retrained.frame_accuracy, result.compressed.frame_accuracy);
}

}  // namespace
}  // namespace antiphon::train
