#include "pipeline/feature_tables.h"

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "data/feature_extraction.h"
#include "data/feature_kind.h"
#include "data/feature_parts.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the tables.
fs::path ComputeFeatures(const FeatureRequest& request, int num_threads, Team& team) {
  if (!fs::exists(fs::path(request.data) / "wav.scp")) {
    Throw<UsageError>(
        "there is neither feats.scp nor wav.scp in '{}': give a data directory, or a table with --features",
        request.data);
  }
  if (request.model_features.empty()) {
    Throw<InputError>("'{}' does not say how its features are computed: make them with antiphon features",
                      request.model);
  }
  data::FeatureExtractionOptions extraction;
  extraction.front_end = ReadOptions<feat::FrontEndOptions>(Config::Parse(request.model_features, request.model));
  extraction.on_error = "skip";
  extraction.silent_recordings = request.silent_recordings;
  extraction.for_model = true;
  extraction.long_in_parts = request.long_in_parts;
  const data::DataDir dir = data::DataDir::Load(request.data, request.data_dir);
  const fs::path folder = request.out / "features";
  const auto result = data::ExtractFeatures(dir, extraction, folder, num_threads, {}, team);
  for (const auto& [utt_id, reason] : result.failed) log::Warn("{} is left out: {}", utt_id, reason);
  return folder;
}

// Features may have been normalised before: no error.
void WarnOfNormalisation(const data::FeatureSourceOptions& tables, const FeatureRequest& request) {
  const std::string found = data::NormalisationOf(tables);
  if (request.normalisation.empty() || found == request.normalisation) return;
  log::Warn("'{}' was trained on features with normalisation by speaker '{}', here it is '{}' (--cmvn, --norm-vars)",
            request.model, request.normalisation, found);
}

}  // namespace

data::FeatureSourceOptions FindFeatureTables(const FeatureRequest& request, int num_threads, Team& team) {
  data::FeatureSourceOptions tables = request.tables;
  const auto require_front_end = [&] {
    data::RequireFrontEnd(data::FrontEndBeside(tables.features), fmt::format("'{}'", tables.features),
                          request.model_features, fmt::format("'{}'", request.model));
  };
  if (!tables.features.empty()) {
    require_front_end();
    if (const fs::path speakers = fs::path(request.data) / "utt2spk"; tables.utt2spk.empty() && fs::exists(speakers)) {
      tables.utt2spk = speakers.string();
    }
    tables.zeros = data::ZerosBeside(tables.features);
    WarnOfNormalisation(tables, request);
    return tables;
  }
  fs::path folder = request.data;
  if (!fs::exists(folder / "feats.scp")) folder = ComputeFeatures(request, num_threads, team);
  const auto set = [&](std::string& path, const char* name) {
    if (path.empty() && fs::exists(folder / name)) path = (folder / name).string();
  };
  set(tables.features, "feats.scp");
  if (data::FeatureParts::AreIn(folder)) tables.parts = folder.string();
  require_front_end();
  tables.zeros = data::ZerosBeside(tables.features);
  set(tables.utt2spk, "utt2spk");
  if (request.normalisation != "none") set(tables.cmvn, "cmvn.scp");
  if (request.normalisation == "mean-variance") tables.norm_vars = true;
  WarnOfNormalisation(tables, request);
  return tables;
}

}  // namespace antiphon::pipeline
