// Where the features of a data directory come from, for commands that score it with a model.
#pragma once

#include <filesystem>
#include <string>

#include "base/team.h"
#include "data/data_dir.h"
#include "data/feature_source.h"

namespace antiphon::pipeline {

struct FeatureRequest {
  std::string data;                   // directory
  std::string model;                  // its file, for messages
  std::string model_features;         // how its features are computed (TOML), "" if it does not say
  data::FeatureSourceOptions tables;  // as the person named them
  data::DataDirOptions data_dir;
  std::filesystem::path out;       // where features that are computed go: out/features
  bool silent_recordings = true;   // false: those in which nothing is heard are left out
  std::string normalisation = {};  // data::FeatureKind::normalisation of the model's training; "" if it does not say
  bool long_in_parts = false;      // of those that are computed: data::FeatureParts
};

/// Tables that stand in the data directory need not be named, nor its utt2spk beside a table from elsewhere; from a
/// directory with audio alone, features are computed as the model says. Statistics that are not named are used as in
/// the model's training; a warning where what is named differs from it. InputError if they are other features than the
/// model's.
data::FeatureSourceOptions FindFeatureTables(const FeatureRequest& request, int num_threads,
                                             Team& team = Team::Alone());

}  // namespace antiphon::pipeline
