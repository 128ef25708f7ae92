// Training that begins with a model: what it takes from it, and teachers.
//
// Threads: plain functions. Errors: what reading a model throws.
#pragma once

#include <filesystem>
#include <memory>

#include "data/feature_kind.h"
#include "nn/model.h"
#include "train/trainer.h"

namespace antiphon::train {

/// Description of a model: how the features that it was trained on were normalised (data::FeatureKind).
inline constexpr char kNormalisation[] = "normalisation";

/// A task whose network goes on from `model`'s and which keeps its HMM, features and speaker model; store, folder,
/// optimiser and strategy are the caller's.
TrainingTask TaskFrom(std::shared_ptr<const nn::Model> model);

/// Of the features that the model takes, as far as it says.
data::FeatureKind KindTakenBy(const nn::Model& model);
/// Their normalisation alone, without reading the models that stand in the model; "": it does not say.
std::string NormalisationTakenBy(const nn::Model& model);

/// Whether the model's states are those of chain training.
bool IsChain(const nn::Model& model);

/// Context and heads as the model has them; chunks of frames for a network of sequences, unless the options name some.
void TakeShape(const nn::Model& model, TrainOptions& options);

/// Posteriors of the largest senones that are stored of a frame to hold a model near to what it was.
constexpr int kHoldingPosteriors = 100;

/// Has `teacher` teach beside those of the task: along with training if all of them see what the student sees, else
/// from the largest `top` posteriors, which are stored in `file` first.
void AddTeacher(std::shared_ptr<const nn::Model> teacher, const std::filesystem::path& file, int top,
                TrainOptions& options, TrainingTask& task);

/// The models that the options name.
std::vector<std::shared_ptr<const nn::Model>> LoadTeachers(const TeacherOptions& options);

}  // namespace antiphon::train
