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

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr char kFrontEnd[] = "front-end";
constexpr char kSpeakerSpace[] = "speaker-space";
constexpr char kSpeakerVectorDim[] = "speaker-vector-dim";

// With every option, so that what one text leaves out is compared by its default.
Config WholeFrontEnd(const std::string& toml, const std::string& where) {
  auto options = ReadOptions<feat::FrontEndOptions>(Config::Parse(toml, where));
  options.dither = 0;
  options.dither_seed = 0;
  return OptionsToConfig(options);
}

}  // namespace

std::string FeatureKind::ToToml() const {
  std::string toml;
  if (speaker_vector_dim > 0) toml += fmt::format("{} = {}\n", kSpeakerVectorDim, speaker_vector_dim);
  if (!speaker_space.empty()) toml += fmt::format("{} = {}\n", kSpeakerSpace, TomlString(speaker_space));
  if (!front_end.empty()) toml += TomlAsTable(kFrontEnd, front_end);
  return toml;
}

FeatureKind KindOf(const FrameStore& store) {
  const Config description = Config::Parse(store.description(), store.folder().string());
  FeatureKind kind;
  if (description.Has(kFrontEnd)) kind.front_end = description.Table(kFrontEnd).ToToml();
  kind.speaker_space = description.Text(kSpeakerSpace).value_or("");
  kind.speaker_vector_dim = static_cast<int>(description.Int(kSpeakerVectorDim).value_or(0));
  return kind;
}

FeatureKind KindOf(const std::string& feature_config, std::span<const std::byte> speaker_model) {
  FeatureKind kind;
  kind.front_end = feature_config;
  if (!speaker_model.empty()) {
    kind.speaker_space = SpeakerSpace(hmm::GmmModel::Parse(speaker_model, "speaker model").transform);
  }
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
  for (const std::string& key : takes.Keys()) {
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
  // Who does not say the one does not say the other.
  if (found.front_end.empty() || wanted.front_end.empty() || found.speaker_space == wanted.speaker_space) return;
  const auto of = [](const FeatureKind& kind) {
    return kind.speaker_space.empty() ? "plain features" : "features in the space of a speaker model's transform";
  };
  Throw<InputError>("{} holds {}, but {} takes {}{}: give the store the speaker model that belongs to the network",
                    found_in, of(found), wanted_by, of(wanted),
                    found.speaker_space.empty() || wanted.speaker_space.empty() ? "" : " of another one");
}

}  // namespace antiphon::data
