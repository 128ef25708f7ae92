// Training that begins with a model: what it takes from it, and teachers.
//
// Threads: plain functions. Errors: what reading a model throws.
#pragma once

#include <memory>

#include "nn/model.h"
#include "train/trainer.h"

namespace antiphon::train {

/// A task whose network goes on from `model`'s and which keeps its HMM, features and speaker model; store, folder,
/// optimiser and strategy are the caller's.
TrainingTask TaskFrom(std::shared_ptr<const nn::Model> model);

/// Context and heads as the model has them.
void TakeShape(const nn::Model& model, TrainOptions& options);

/// The models that the options name.
std::vector<std::shared_ptr<const nn::Model>> LoadTeachers(const TeacherOptions& options);

}  // namespace antiphon::train
