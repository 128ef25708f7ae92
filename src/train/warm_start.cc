#include "train/warm_start.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "train/soft_targets.h"

namespace antiphon::train {
namespace {

constexpr int kWarmStartChunkOutputs = 20;

bool SeesTheSame(const nn::Model& teacher, const nn::Model& student, const TrainOptions& options) {
  if (options.sequence.in_chunks()) return teacher.network.time_context() == student.network.time_context();
  return !teacher.network.needs_sequences() && !student.network.needs_sequences() &&
         teacher.frames_per_forward == options.frames_per_forward &&
         teacher.first_frame_offset == options.first_frame_offset &&
         teacher.left_context <= options.data.left_context && teacher.right_context <= options.data.right_context;
}

}  // namespace

TrainingTask TaskFrom(std::shared_ptr<const nn::Model> model) {
  TrainingTask task;
  if (!model->hmm_json.empty()) task.hmm = hmm::HmmModel::FromJson(model->hmm_json);
  task.feature_config = model->feature_config;
  task.speaker_model = model->speaker_model;
  task.ivector_extractor = model->ivector_extractor;
  task.initial = std::move(model);
  return task;
}

std::string NormalisationTakenBy(const nn::Model& model) {
  const auto said = model.descriptions.find(kNormalisation);
  return said == model.descriptions.end() ? "" : said->second;
}

data::FeatureKind KindTakenBy(const nn::Model& model) {
  data::FeatureKind kind = data::KindOf(model.feature_config, model.speaker_model, model.ivector_extractor);
  kind.normalisation = NormalisationTakenBy(model);
  return kind;
}

bool IsChain(const nn::Model& model) {
  return !model.hmm_json.empty() && hmm::HmmModel::FromJson(model.hmm_json).topology().IsChain();
}

void TakeShape(const nn::Model& model, TrainOptions& options) {
  options.data.left_context = model.left_context;
  options.data.right_context = model.right_context;
  options.frames_per_forward = model.frames_per_forward;
  options.first_frame_offset = model.first_frame_offset;
  if (model.network.needs_sequences() && options.data.chunk_frames == 0) {
    options.data.chunk_frames = kWarmStartChunkOutputs * model.network.time_context().stride;
  }
}

void AddTeacher(std::shared_ptr<const nn::Model> teacher, const std::filesystem::path& file, int top,
                TrainOptions& options, TrainingTask& task) {
  if (!options.teacher.targets.empty()) {
    throw UsageError("the model as it was teaches: leave out train.teacher.targets");
  }
  task.teachers.push_back(std::move(teacher));
  const auto sees_the_same = [&](const auto& t) { return SeesTheSame(*t, *task.initial, options); };
  if (std::ranges::all_of(task.teachers, sees_the_same)) return;
  SoftTargets::Write(file, task.store, std::exchange(task.teachers, {}), {.top = top, .precision = options.precision});
  options.teacher.models.clear();
  options.teacher.targets = file.string();
}

std::vector<std::shared_ptr<const nn::Model>> LoadTeachers(const TeacherOptions& options) {
  std::vector<std::shared_ptr<const nn::Model>> teachers;
  for (const std::string& file : options.models) {
    teachers.push_back(WithContext([&] { return std::make_shared<const nn::Model>(nn::Model::Load(file)); },
                                   [&] { return fmt::format("teacher '{}'", file); }));
  }
  return teachers;
}

}  // namespace antiphon::train
