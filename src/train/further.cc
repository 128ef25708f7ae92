#include "train/further.h"

#include "base/error.h"

namespace antiphon::train {

TrainingTask TaskFrom(std::shared_ptr<const nn::Model> model) {
  TrainingTask task;
  if (!model->hmm_json.empty()) task.hmm = hmm::HmmModel::FromJson(model->hmm_json);
  task.feature_config = model->feature_config;
  task.speaker_model = model->speaker_model;
  task.initial = std::move(model);
  return task;
}

void TakeShape(const nn::Model& model, TrainOptions& options) {
  options.data.left_context = model.left_context;
  options.data.right_context = model.right_context;
  options.frames_per_forward = model.frames_per_forward;
  options.first_frame_offset = model.first_frame_offset;
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
