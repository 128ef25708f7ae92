// A model file taken apart into values, and put together again: for those who compute or train with something else.
//
//   antiphon::ModelFile file = antiphon::ModelFile::Read("model.safetensors");
//   for (antiphon::ModelTensor& tensor : file.tensors) Change(tensor.values);
//   file.Write("changed.safetensors");                       // decodes, compresses and adapts as any other
//
// A new model needs `network`, `feature_dim` and the context; to decode, `hmm` and `log_priors` too, which
// TakeDescription copies from a model that the same labels are of.
//
// Shapes: weights [outputs, inputs], row by row; biases and the like one row. Units: logarithms in nats. Outputs are
// pdf-ids, from 0. Ownership: values. Threads: values; const methods may run together.
// Errors: antiphon::Error (antiphon/error.h), naming file or tensor, expected and found: kInput for what is damaged or
// does not fit together, kUsage for a network that cannot be, kIo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

/// Named "affine1.weight": the layer's name, and what it is there.
struct ModelTensor {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  bool trained = true;  // false: statistics, fixed transforms
  std::vector<float> values;
};

struct ModelLayer {
  std::string name;
  std::string type;
  int in_dim = 0;
  int out_dim = 0;
  std::string options;  // TOML, all of them
};

struct ANTIPHON_API ModelFile {
  std::string network;  // [[layer]] tables in TOML
  std::vector<ModelTensor> tensors;
  int feature_dim = 0;   // values per frame before frames are spliced
  int left_context = 0;  // frames spliced on; the network takes feature_dim × (left + 1 + right) values
  int right_context = 0;
  int frames_per_forward = 1;  // frames that one evaluation scores, the first one this far from the current one
  int first_frame_offset = 0;
  int frame_subsampling = 1;      // frames of the features per frame of the HMM
  std::string features;           // the front end's options, as TOML; "" if unknown
  std::string hmm;                // phones and states that the outputs are, as JSON; "" if unknown
  std::vector<float> log_priors;  // of each output; empty if unknown
  std::map<std::string, std::string> descriptions;
  std::vector<std::byte> speaker_model;  // files, byte by byte; usually empty
  std::vector<std::byte> ivector_extractor;

  static ModelFile Read(const std::string& file);
  /// Whole or not at all. Every tensor of the network must be there, with its shape, and be finite.
  void Write(const std::string& file) const;

  /// The layers that `network` stands for, from the bottom up; a layer within another is not listed.
  std::vector<ModelLayer> Layers() const;
  /// Outputs of the network, of all heads.
  int NumOutputs() const;
  /// hmm of another model (a network or Gaussians, its bundle, or what hmm holds as a file), and its features if they
  /// have feature_dim values or that is not set yet, where these are empty here.
  void TakeDescription(const std::string& model);
};

}  // namespace antiphon
