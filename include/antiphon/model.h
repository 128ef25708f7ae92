// A trained network: what it is, and what it says about frames.
//
//   const antiphon::Model model("exp/net/model.safetensors");
//   const std::vector<float> scores = model.LogLikelihoods(features);   // frames × model.num_outputs()
//
// Shapes: row by row, one frame per row. Outputs are pdf-ids, from 0. Units: log-likelihoods in nats.
// Ownership: moved, not copied; profiles, and scorers that are made of it, keep alive what they need.
// Threads: a Model may be used by many threads at once.
// Errors: antiphon::Error (antiphon/error.h): kInput for a file that is damaged or no model of this kind and for
// features that are no whole frames, kUsage for another model's profile, kIo, kCancelled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "antiphon/export.h"
#include "antiphon/speaker_profile.h"

namespace antiphon {

class ANTIPHON_API Model {
 public:
  /// A model file (.safetensors), checked whole.
  explicit Model(const std::string& file);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// Values per frame that LogLikelihoods takes; so many frames before and after are spliced on inside.
  int feature_dim() const;
  int left_context() const;
  int right_context() const;
  /// Tied states.
  int num_outputs() const;
  int64_t num_parameters() const;
  /// The network's layers and the front end's options, as TOML.
  std::string network() const;
  std::string features() const;

  /// A file that `antiphon adapt` made for this model; refused if it was made for another one.
  SpeakerProfile LoadProfile(const std::string& file) const;

  /// log p(frame | state) up to a constant per frame. `features`: frames × feature_dim, row by row, normalised as in
  /// training; `profile`: the speaker's, from LoadProfile of this Model. Returns frames × num_outputs; of a model with
  /// K frames per frame of its HMM (chain models), a K-th as many, rounded up.
  std::vector<float> LogLikelihoods(std::span<const float> features, const SpeakerProfile& profile = {}) const;

 private:
  friend class StreamScorer;
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace antiphon
