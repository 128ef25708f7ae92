// What the numbers of a frame are: how features were computed and what followed, so that those of another kind are
// refused even where they have as many dimensions.
//
// Kept as TOML in the description of a frame store. What is not known ("" or 0) fits everything.
// Threads: pure functions. Errors: InputError naming the first difference; UsageError for a description that is no
// TOML.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "hmm/feature_transform.h"

namespace antiphon::data {

class FrameStore;

struct FeatureKind {
  std::string front_end = {};        // feat::FrontEndOptions as TOML; "": not known
  std::string speaker_space = {};    // checksum of the GMM model's transform that follows; "": none
  std::string normalisation = {};    // by speakers' statistics: "none", "mean" or "mean-variance"; "": not known
  int speaker_vector_dim = 0;        // numbers behind each frame that say who speaks
  std::string speaker_vectors = {};  // checksum of the extractor that made them online; "": not known

  std::string ToToml() const;
};

/// As its description says.
FeatureKind KindOf(const FrameStore& store);
/// What a network takes: nn::Model::feature_config, ::speaker_model and ::ivector_extractor; the rest is not known.
FeatureKind KindOf(const std::string& feature_config, std::span<const std::byte> speaker_model,
                   std::span<const std::byte> ivector_extractor = {});

/// The front end that a network keeps which learns from the store: that of a file, which must describe the store's
/// features, or if `file` is empty what the store itself says, "" if it does not. Features behind a speaker model's
/// transform have none unless the network keeps that model too.
std::string FrontEndFor(const FrameStore& store, const std::string& file, bool keeps_speaker_model);

/// The text of the front_end.toml beside a table of features; "" if there is none.
std::string FrontEndBeside(const std::string& feature_table);
/// Of a feature folder: "UTT BEGIN END BEGIN END …" in seconds, for utterances whose audio has runs of zeros.
inline constexpr char kZerosFile[] = "utt2zeros";
/// The path of that beside a table of features; "" if there is none.
std::string ZerosBeside(const std::string& feature_table);
std::string SpeakerSpace(const hmm::FeatureTransform& transform);

/// Of two descriptions of front ends (TOML); dither may differ, and options that the kind does not look at. `found_in`
/// is named as where the features are, `wanted_by` as what takes others; both as they stand in a sentence.
void RequireFrontEnd(const std::string& found, const std::string& found_in, const std::string& wanted,
                     const std::string& wanted_by);
/// The same, and what follows the front end. Not compared: vectors of speakers, whose number the dimension tells, and
/// transforms of single speakers.
void RequireKind(const FrameStore& store, const FeatureKind& wanted, const std::string& wanted_by);

}  // namespace antiphon::data
