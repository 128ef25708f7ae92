#include "train/compression.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "comm/thread_world.h"
#include "compress/network_parts.h"
#include "data/feature_kind.h"
#include "train/soft_targets.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

constexpr int kBatch = 1024;

nlohmann::json CompressionJson(const ModelMeasures& m) {
  return {{"parameters", m.parameters}, {"bytes", m.bytes}, {"loss", m.loss}, {"frame_accuracy", m.frame_accuracy}};
}

}  // namespace

StoreFrames::StoreFrames(EvaluationData data) {
  data.minibatch = kBatch;
  pool_ = FramesInOrder(data, 0);
}
StoreFrames::~StoreFrames() = default;

void StoreFrames::Rewind() { stream_.reset(); }

nn::NetworkInput StoreFrames::Next() {
  if (!stream_) stream_ = std::make_unique<data::MinibatchStream>(pool_, 0, 0);
  const data::Minibatch* minibatch = stream_->Next();
  return minibatch == nullptr ? nn::NetworkInput() : nn::NetworkInput{minibatch->features, minibatch->sequences};
}

TrainOptions CompressionOptions::RetrainingDefaults() {
  TrainOptions options;
  options.schedule.type = optim::ScheduleType::kExponential;
  options.schedule.epochs = 6;
  options.schedule.learning_rate = 0.1;
  options.schedule.final_learning_rate = 0.005;
  options.teacher.weight = 0.5;
  options.teacher.temperature = 2;
  options.dropout_schedule = "0";
  return options;
}

CompressionRun::CompressionRun(CompressionOptions options, std::shared_ptr<const nn::Model> model,
                               std::shared_ptr<const data::FrameStore> store,
                               std::shared_ptr<const data::FrameStore> held_out_store, uint64_t seed)
    : options_(std::move(options)),
      model_(std::move(model)),
      store_(std::move(store)),
      held_out_store_(std::move(held_out_store)),
      seed_(seed),
      held_out_seed_(seed) {
  if (!store_) {
    if (held_out_store_ == nullptr) return;
    throw UsageError("a held-out store alone is of no use: give the store to train on too (--store)");
  }
  if (store_->feat_dim() != model_->feature_dim || store_->num_pdfs() != model_->num_pdfs()) {
    Throw<InputError>("the store '{}' has {} features and {} pdf-ids, the model takes {} and {}",
                      store_->folder().string(), store_->feat_dim(), store_->num_pdfs(), model_->feature_dim,
                      model_->num_pdfs());
  }
  data::RequireKind(*store_, KindTakenBy(*model_), "the model");
  if (held_out_store_) return;
  TakeHeldOut();
  split_ = SplitForRun(*store_, options_.train.held_out, held_out_seed_);
}

// What the model has learnt says nothing about it.
void CompressionRun::TakeHeldOut() {
  HeldOutOptions& held_out = options_.train.held_out;
  const std::optional<HeldOutRun> in_training = FindHeldOut(model_->descriptions);
  if (!in_training) {
    log::Warn(
        "the model does not say what its training held out: it is measured on {:g} % of the speech, of which it may "
        "have learnt most; --held-out-store measures on other speech",
        100 * held_out.fraction);
    return;
  }
  if (!options_.own_held_out) {
    held_out.by = in_training->options.by;
    held_out.fraction = in_training->options.fraction;
    held_out_seed_ = in_training->seed;
    return;
  }
  const std::string then = HeldOutText(in_training->options, in_training->seed);
  if (const std::string own = HeldOutText(held_out, seed_); own != then) {
    log::Warn(
        "the model was trained with {} held out, and here it is {}, as was asked for: it is measured on speech that it "
        "has learnt, and looks better than it is",
        then, own);
  }
}

EvaluationData CompressionRun::HeldOut() const {
  EvaluationData data;
  data.store = held_out_store_ ? held_out_store_ : store_;
  data.utterances = LimitFrames(*data.store, split_.held_out, options_.train.held_out.most_frames, seed_);
  return data;
}

ModelMeasures CompressionRun::Measure(const nn::Model& model, int frame_skip) const {
  const compress::NetworkSize size = compress::SizeOf(model.network);
  ModelMeasures measures{size.parameters, size.bytes, 0, 0};
  if (!store_) return measures;
  EvaluationData data = HeldOut();
  data.context = {model.left_context, model.right_context};
  nn::Workspace workspace;
  nn::LossResult loss;
  for (int k = 0; k < frame_skip; ++k) {
    data.heads = {model.frames_per_forward, model.first_frame_offset + k * model.frames_per_forward};
    loss += Evaluate(model.network, data, workspace).loss;
  }
  measures.loss = loss.loss();
  measures.frame_accuracy = loss.frame_accuracy();
  return measures;
}

CompressionResult CompressionRun::Compress(const std::string& name, const Config& keys,
                                           const std::filesystem::path& folder, const Config& optimizer) const {
  const auto method = WithContext([&] { return compress::MethodRegistry::Get().Create(name, keys); },
                                  [&] { return fmt::format("method '{}'", name); });
  CompressionResult result;
  result.before = Measure(*model_);
  MakeFolder(folder);
  // Every stage begins with what the file of the one before holds, so that what is measured is what is kept.
  nn::Model model = model_->Clone();
  std::unique_ptr<StoreFrames> frames;
  if (store_) {
    EvaluationData data{store_,
                        LimitFrames(*store_, split_.train, options_.frames, seed_),
                        {model.left_context, model.right_context},
                        {}};
    data.SuitTo(model.network);
    frames = std::make_unique<StoreFrames>(std::move(data));
  }
  result.changes = method->Apply(model, {frames.get(), seed_});
  std::string& history = model.descriptions["compressed_by"];
  history += fmt::format("{}{} {{{}}}", history.empty() ? "" : "; ", name, keys.ToToml());
  const auto compressed_file = folder / "compressed.safetensors";
  model.Save(compressed_file);
  const auto compressed = std::make_shared<const nn::Model>(nn::Model::Load(compressed_file));
  result.compressed = result.retrained = Measure(*compressed);
  result.model = folder / "model.safetensors";
  if (options_.retrain && store_) {
    Retrain(compressed, folder / "retrain", optimizer);
    const nn::Model retrained = nn::Model::Load(ModelFile(folder / "retrain"));
    retrained.Save(result.model);
    result.retrained = Measure(retrained);
  } else {
    compressed->Save(result.model);
  }
  WriteFileAtomically(folder / "compression.json", ToJson(result) + "\n");
  return result;
}

void CompressionRun::Retrain(std::shared_ptr<const nn::Model> model, const std::filesystem::path& folder,
                             const Config& optimizer) const {
  TrainOptions options = options_.train;
  TakeShape(*model, options);
  TrainingTask task = TaskFrom(std::move(model));
  task.store = store_;
  task.held_out_store = held_out_store_;
  task.folder = folder;
  task.optimizer = optimizer;
  task.seed = held_out_seed_;  // which decides what is held out, too
  task.teachers = LoadTeachers(options.teacher);
  if (options_.distill) {
    AddTeacher(model_, folder.parent_path() / "targets.bin", SoftTargetOptions().top, options, task);
  }
  const auto comm = comm::MakeSelfCommunicator();
  Trainer(std::move(task), options, *comm).Run(/*resume=*/false);
}

std::string ToJson(const CompressionResult& result) {
  nlohmann::json layers = nlohmann::json::array();
  for (const compress::Change& c : result.changes) layers.push_back({{"layer", c.layer}, {"what", c.what}});
  return nlohmann::json({{"model", result.model.string()},
                         {"layers", layers},
                         {"before", CompressionJson(result.before)},
                         {"compressed", CompressionJson(result.compressed)},
                         {"retrained", CompressionJson(result.retrained)}})
      .dump();
}

}  // namespace antiphon::train
