#include "data/feature_kind.h"

#include <filesystem>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/toml_text.h"
#include "data/frame_store.h"
#include "data/script.h"
#include "feat/front_end.h"
#include "hmm/gmm_model.h"
#include "hmm/ivector.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr char kFrontEnd[] = "front-end";
constexpr char kSpeakerSpace[] = "speaker-space";
constexpr char kSpeakerVectorDim[] = "speaker-vector-dim";
constexpr char kSpeakerVectors[] = "speaker-vectors";
constexpr char kNormalisation[] = "normalisation";

// With every option, so that what one text leaves out is compared by its default; those that change nothing are as by
// default.
Config WholeFrontEnd(const std::string& toml, const std::string& where) {
  auto options = ReadOptions<feat::FrontEndOptions>(Config::Parse(toml, where));
  const feat::FrontEndOptions unused;
  options.dither = 0;
  options.dither_seed = 0;
  if (options.high_freq_hz <= 0) options.high_freq_hz += 0.5 * options.sample_rate_hz;
  if (options.kind == "fbank") {
    options.ceps = unused.ceps;
    options.cepstral_lifter = unused.cepstral_lifter;
  }
  if (options.kind != "plp") options.lpc_order = unused.lpc_order;
  if (!options.use_energy) options.energy_floor = unused.energy_floor;
  if (options.pitch_dim == 0) {
    options.min_pitch_hz = unused.min_pitch_hz;
    options.max_pitch_hz = unused.max_pitch_hz;
  }
  if (options.delta_order == 0) options.delta_window = unused.delta_window;
  if (options.mean_window == 0) {
    options.mean_prior_frames = unused.mean_prior_frames;
    options.mean_prior.clear();
  }
  return OptionsToConfig(options);
}

// What says most comes first.
std::vector<std::string> KeysToCompare(const Config& front_end) {
  std::vector<std::string> keys = {"kind", "sample-rate"};
  for (std::string& key : front_end.Keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace

std::string FeatureKind::ToToml() const {
  std::string toml;
  if (speaker_vector_dim > 0) toml += fmt::format("{} = {}\n", kSpeakerVectorDim, speaker_vector_dim);
  if (!speaker_vectors.empty()) toml += fmt::format("{} = {}\n", kSpeakerVectors, TomlString(speaker_vectors));
  if (!speaker_space.empty()) toml += fmt::format("{} = {}\n", kSpeakerSpace, TomlString(speaker_space));
  if (!normalisation.empty()) toml += fmt::format("{} = {}\n", kNormalisation, TomlString(normalisation));
  if (!front_end.empty()) toml += TomlAsTable(kFrontEnd, front_end);
  return toml;
}

FeatureKind KindOf(const FrameStore& store) {
  const Config description = Config::Parse(store.description(), store.folder().string());
  FeatureKind kind;
  if (description.Has(kFrontEnd)) kind.front_end = description.Table(kFrontEnd).ToToml();
  kind.speaker_space = description.Text(kSpeakerSpace).value_or("");
  kind.normalisation = description.Text(kNormalisation).value_or("");
  kind.speaker_vectors = description.Text(kSpeakerVectors).value_or("");
  kind.speaker_vector_dim = static_cast<int>(description.Int(kSpeakerVectorDim).value_or(0));
  return kind;
}

FeatureKind KindOf(const std::string& feature_config, std::span<const std::byte> speaker_model,
                   std::span<const std::byte> ivector_extractor) {
  FeatureKind kind;
  kind.front_end = feature_config;
  if (!speaker_model.empty()) {
    kind.speaker_space = SpeakerSpace(hmm::GmmModel::Parse(speaker_model, "speaker model").transform);
  }
  if (!ivector_extractor.empty()) kind.speaker_vectors = hmm::ExtractorChecksum(ivector_extractor);
  return kind;
}

std::string FrontEndFor(const FrameStore& store, const std::string& file, bool keeps_speaker_model) {
  const FeatureKind kind = KindOf(store);
  if (file.empty()) return kind.speaker_space.empty() || keeps_speaker_model ? kind.front_end : "";
  const std::string text = ReadFile(file);
  const feat::FrontEnd front_end(ReadOptions<feat::FrontEndOptions>(Config::Parse(text, file)));
  const std::string folder = fmt::format("'{}'", store.folder().string());
  const int dim = store.feat_dim() - kind.speaker_vector_dim;
  if (!keeps_speaker_model && front_end.dim() != dim) {
    Throw<InputError>("'{}' describes features of {} dimensions, but those in {} have {}: it belongs to others", file,
                      front_end.dim(), folder, dim);
  }
  RequireFrontEnd(kind.front_end, folder, text, fmt::format("'{}'", file));
  return text;
}

std::string FrontEndBeside(const std::string& feature_table) {
  const fs::path file = fs::path(ParseTableName(feature_table).path).parent_path() / "front_end.toml";
  return fs::exists(file) ? ReadFile(file) : "";
}

std::string ZerosBeside(const std::string& feature_table) {
  const fs::path file = fs::path(ParseTableName(feature_table).path).parent_path() / kZerosFile;
  return fs::exists(file) ? file.string() : "";
}

std::string SpeakerSpace(const hmm::FeatureTransform& transform) {
  const ConstMatrixView m = transform.matrix();
  std::string bytes = fmt::format("{} {} {} {} ", transform.left(), transform.right(), m.rows(), m.cols());
  for (int64_t r = 0; r < m.rows(); ++r) {
    bytes.append(reinterpret_cast<const char*>(m.Row(r).data()), m.Row(r).size_bytes());
  }
  return fmt::format("{:016x}", Checksum(bytes));
}

void RequireFrontEnd(const std::string& found, const std::string& found_in, const std::string& wanted,
                     const std::string& wanted_by) {
  if (found.empty() || wanted.empty()) return;
  const Config has = WholeFrontEnd(found, found_in);
  const Config takes = WholeFrontEnd(wanted, wanted_by);
  for (const std::string& key : KeysToCompare(takes)) {
    if (has.AnyAsText(key) == takes.AnyAsText(key)) continue;
    Throw<InputError>(
        "the features in {} were computed with {} = {}, but {} takes those with {}; compute them like its training "
        "features (antiphon features --like)",
        found_in, key, *has.AnyAsText(key), wanted_by, *takes.AnyAsText(key));
  }
}

void RequireKind(const FrameStore& store, const FeatureKind& wanted, const std::string& wanted_by) {
  const FeatureKind found = KindOf(store);
  const std::string found_in = fmt::format("'{}'", store.folder().string());
  RequireFrontEnd(found.front_end, found_in, wanted.front_end, wanted_by);
  if (!found.normalisation.empty() && !wanted.normalisation.empty() && found.normalisation != wanted.normalisation) {
    Throw<InputError>(
        "{} holds features with normalisation by speaker '{}', but {} takes '{}': make the store with{} --cmvn and "
        "norm-vars as in its training",
        found_in, found.normalisation, wanted_by, wanted.normalisation, wanted.normalisation == "none" ? "out" : "");
  }
  if (!found.speaker_vectors.empty() && !wanted.speaker_vectors.empty() &&
      found.speaker_vectors != wanted.speaker_vectors) {
    Throw<InputError>(
        "{} holds vectors of speakers by another extractor than {} has: make them by the extractor that the network "
        "keeps",
        found_in, wanted_by);
  }
  // A description without a front end says nothing of the speaker space either.
  if (found.front_end.empty() || wanted.front_end.empty() || found.speaker_space == wanted.speaker_space) return;
  if (wanted.speaker_space.empty()) {
    Throw<InputError>(
        "{} holds features in the space of a speaker model's transform, but {} takes plain ones; to train on them, "
        "give that model (--speaker-model), which the network then keeps",
        found_in, wanted_by);
  }
  Throw<InputError>(
      "{} holds {}, but {} takes those in the space of {} speaker model's transform: make the store with the speaker "
      "model that the network was trained with",
      found_in, found.speaker_space.empty() ? "plain features" : "features in the space of one", wanted_by,
      found.speaker_space.empty() ? "a" : "another");
}

}  // namespace antiphon::data
