// What one speaker needs of a shared model: a few kilobytes beside it.
//
//   SpeakerProfile profile = ExtractProfile(adapted, original);    // the layers that adaptation put in
//   profile.Save("anna.safetensors");
//   …  infer::NnetModel::Bind(profile)                             // the runtime applies it, speaker by speaker
//
// A part changes hidden values, or the features before they are spliced: x' = A·x + b with A full or diagonal (scales).
// Shapes: scales [1, dim]; matrices [dim, dim]; offsets [1, dim] or empty.
// File: safetensors; tensors "N.scale", "N.matrix", "N.offset" for part N, its place in the metadata "N.after"; the
// model that it belongs to by its hash. Errors: InputError naming file, part, expected and found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "math/matrix.h"
#include "nn/model.h"

namespace antiphon::nn {

struct SpeakerProfile {
  struct Part {
    /// The layer whose output is changed; "": a frame's features.
    std::string after;
    Matrix scale;   // [1, dim], or …
    Matrix matrix;  // [dim, dim]; the other one is empty
    Matrix offset;  // [1, dim] or empty
  };
  std::vector<Part> parts;
  std::string model;    // ModelId of the model that it is for
  std::string speaker;  // free text
  std::string method;

  void Save(const std::filesystem::path& path) const;
  static SpeakerProfile Load(const std::filesystem::path& path);
};

/// Tells models apart: their values, whatever else a file holds. 16 hexadecimal digits.
std::string ModelId(const Network& network);

/// The layers of types "lhuc", "frame-affine" and "affine" that `adapted` has and `original` has not, as a profile for
/// `original`. InputError if the models differ in anything else.
SpeakerProfile ExtractProfile(const Model& adapted, const Model& original);

/// Names the difference (InputError) unless the profile is for the model.
void RequireProfileFits(const SpeakerProfile& profile, const std::string& model_id);

}  // namespace antiphon::nn
