#include "pipeline/align_audio.h"

#include <memory>
#include <set>

#include "base/error.h"
#include "data/data_summary.h"
#include "data/feature_extraction.h"
#include "data/lexicon_fit.h"
#include "pipeline/acoustic_model.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

data::FeatureExtractionOptions Extraction(const std::string& model) {
  data::FeatureExtractionOptions extraction;
  extraction.on_error = "skip";
  if (model.empty()) {
    extraction.front_end.mel_bins = 23;
    extraction.front_end.ceps = 13;
    extraction.front_end.high_freq_hz = 0;
    extraction.usual_rate = true;
    return extraction;
  }
  const std::string features = AcousticModel::Load(model, {})->features();
  if (features.empty()) {
    Throw<InputError>("'{}' does not say how its features are computed: make them with antiphon features", model);
  }
  extraction.front_end = ReadOptions<feat::FrontEndOptions>(Config::Parse(features, model));
  extraction.for_model = true;
  return extraction;
}

}  // namespace

AudioTexts TextsFor(const AlignAudioOptions& options, const std::string& lexicon) {
  AudioTexts texts{options.transcripts, /*beside=*/true};
  if (options.spelling == "keep" || lexicon.empty()) return texts;
  const auto words = std::make_shared<const std::set<std::string>>(data::ReadLexiconWords(lexicon));
  texts.spelling = [words](const std::string& text) { return data::InLexiconSpelling(text, *words); };
  return texts;
}

std::string FeatureFolderOf(const std::string& data, const AlignAudioOptions& options, const std::string& lexicon,
                            const std::string& model, const fs::path& out, int threads, Team& team,
                            std::vector<data::DataProblem>& left_out) {
  const std::string folder = DataDirectoryOf(data, TextsFor(options, lexicon), options.channels, out, team, &left_out);
  if (fs::exists(fs::path(folder) / "feats.scp") || !fs::exists(fs::path(folder) / "wav.scp")) return folder;
  if (!fs::exists(fs::path(folder) / "text")) {
    Throw<UsageError>("'{}' has no transcripts, and nothing can be aligned", data);
  }
  const data::DataDir dir = data::DataDir::Load(folder, options.data_dir);
  const fs::path features = out / "features";
  const auto result = data::ExtractFeatures(dir, Extraction(model), features, threads, {}, team);
  for (const auto& [utt_id, why] : result.failed) left_out.push_back({utt_id, why + "; it is left out", false});
  return features.string();
}

}  // namespace antiphon::pipeline
