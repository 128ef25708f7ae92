// A model file: the network and everything needed to use it.
//
// File: safetensors; one tensor or two per parameter and buffer (nn/parameter_storage.h; names as in the network),
// "log_priors" [K]; texts in the metadata (docs/reference/formats.md). A saved and loaded model has the same bits,
// except that what a file holds in few bits is rounded when it is first saved.
// Errors: InputError naming file, tensor, expected and found.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nn/network.h"

namespace antiphon::nn {

struct Model {
  Network network;
  /// The front end's options as TOML (feat::FrontEndOptions), "" if unknown.
  std::string feature_config;
  /// Values per frame before splicing; network.in_dim() = feature_dim · (left_context + 1 + right_context).
  int feature_dim = 0;
  int left_context = 0;
  int right_context = 0;
  /// A network that scores several frames at once has as many heads, one beside the other in its output: head k is for
  /// frame t + first_frame_offset + k of the window around t.
  int frames_per_forward = 1;
  int first_frame_offset = 0;
  /// Feature frames per frame of the HMM: a network with a stride whose HMM's states last that long (chain models)
  /// gives the search one frame of scores for so many frames. 1, or the network's stride.
  int frame_subsampling = 1;
  /// hmm::HmmModel as JSON, "" if the model stands without one.
  std::string hmm_json;
  /// A GMM file (hmm/gmm_model.h), byte by byte: the features went through its transform and the speakers', and its
  /// first pass gives a new speaker's transform. Empty if they did not.
  std::vector<std::byte> speaker_model;
  /// An i-vector extractor (hmm/ivector.h), byte by byte: what it says of the speaker up to now stands behind the
  /// features of each frame, feature_dim counting it. Empty if nothing does, or what came from elsewhere.
  std::vector<std::byte> ivector_extractor;
  /// log p(s) per pdf-id; empty if unknown.
  std::vector<float> log_priors;
  /// Free descriptions: "trained_by", "seed", "frame_accuracy", …
  std::map<std::string, std::string> descriptions;

  Model Clone() const;
  /// Without `values` from the network. With them the network may be an outline (network.h): `values` hands out those
  /// of each parameter and buffer, once, in the order of SavedOrder.
  using Values = std::function<void(const Parameter&, const std::function<void(std::span<const float>)>& take)>;
  void Save(const std::filesystem::path& path, const Values& values = {}) const;
  static Model Load(const std::filesystem::path& path);
  int num_pdfs() const { return network.out_dim() / frames_per_forward; }

  /// Throws InputError that names what does not fit (dimensions, priors) with both values.
  void Validate() const;
};

/// A network's parameters and buffers as Model::Save asks for their values: those that the file holds in another form
/// than as they are (nn/parameter_storage.h), which it collects whole, masks first; then the others by name.
std::vector<const Parameter*> SavedOrder(const Network& network);

/// Network::Hash of a network of which there is the outline, and `values`: asked for those of each parameter and then
/// of each buffer, from the bottom up.
uint64_t HashOf(const Network& outline, const Model::Values& values);

}  // namespace antiphon::nn
