#include "nn/speaker_profile.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/safetensors.h"
#include "nn/network_parts.h"

namespace antiphon::nn {
namespace {

constexpr char kProfileFormat[] = "antiphon-profile";

Matrix ReadOptional(const SafetensorsReader& reader, const std::string& name) {
  return reader.Has(name) ? reader.ReadMatrix(name) : Matrix();
}

bool IsFinite(const Matrix& values) {
  const float* const first = values.data();
  return std::all_of(first, first + values.size(), [](float v) { return std::isfinite(v); });
}

void CheckPart(const SpeakerProfile::Part& part, size_t i) {
  const bool diagonal = !part.scale.empty();
  const int64_t dim = diagonal ? part.scale.cols() : part.matrix.cols();
  const bool one = diagonal != !part.matrix.empty();
  const bool shaped = diagonal ? part.scale.rows() == 1 : part.matrix.rows() == dim;
  const bool offset = part.offset.empty() || (part.offset.rows() == 1 && part.offset.cols() == dim);
  if (!one || !shaped || !offset) Throw<InputError>("part {}: expected one scale or square matrix and its offset", i);
  if (!IsFinite(part.scale) || !IsFinite(part.matrix) || !IsFinite(part.offset)) {
    Throw<InputError>("part {} has values that are not finite numbers: adapt the model to the speaker again", i);
  }
}

SpeakerProfile::Part PartOf(const LayerParts& layer, const std::string& after) {
  SpeakerProfile::Part part;
  part.after = after;
  if (TraitsOf(layer).profile == LayerTraits::ProfilePart::kScale) {
    part.scale = Matrix(ConstMatrixView(layer.tensors.at("r")));
    for (float& a : part.scale.Row(0)) a = 2 / (1 + std::exp(-a));
  } else {
    part.matrix = Matrix(ConstMatrixView(layer.weight()));
    part.offset = BiasOf(layer);
  }
  return part;
}

bool SameLayer(const LayerParts& a, const LayerParts& b) {
  if (a.type != b.type || a.tensors.size() != b.tensors.size()) return false;
  return std::all_of(a.tensors.begin(), a.tensors.end(), [&](const auto& entry) {
    const auto found = b.tensors.find(entry.first);
    return found != b.tensors.end() && found->second.size() == entry.second.size() &&
           std::equal(entry.second.data(), entry.second.data() + entry.second.size(), found->second.data());
  });
}

}  // namespace

std::string ModelId(const Network& network) { return fmt::format("{:016x}", network.Hash()); }

void SpeakerProfile::Save(const std::filesystem::path& path) const {
  SafetensorsWriter writer;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string prefix = std::to_string(i) + ".";
    if (!parts[i].scale.empty()) writer.Add(prefix + "scale", parts[i].scale.view());
    if (!parts[i].matrix.empty()) writer.Add(prefix + "matrix", parts[i].matrix.view());
    if (!parts[i].offset.empty()) writer.Add(prefix + "offset", parts[i].offset.view());
    writer.SetMetadata(prefix + "after", parts[i].after);
  }
  writer.SetMetadata("format", kProfileFormat);
  writer.SetMetadata("version", "1");
  writer.SetMetadata("parts", std::to_string(parts.size()));
  writer.SetMetadata("model", model);
  writer.SetMetadata("speaker", speaker);
  writer.SetMetadata("method", method);
  writer.Write(path);
}

SpeakerProfile SpeakerProfile::Load(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  return WithContext(
      [&] {
        if (reader.MetadataOr("format", "") != kProfileFormat) {
          Throw<InputError>("this is no speaker's profile (metadata 'format' is '{}', expected '{}')",
                            reader.MetadataOr("format", ""), kProfileFormat);
        }
        if (reader.Metadata("version") != "1") {
          Throw<InputError>("the profile has version {}, this program reads version 1", reader.Metadata("version"));
        }
        SpeakerProfile profile;
        profile.model = reader.Metadata("model");
        profile.speaker = reader.Metadata("speaker");
        profile.method = reader.Metadata("method");
        for (size_t i = 0; std::to_string(i) != reader.Metadata("parts"); ++i) {
          const std::string prefix = std::to_string(i) + ".";
          Part part{reader.Metadata(prefix + "after"), ReadOptional(reader, prefix + "scale"),
                    ReadOptional(reader, prefix + "matrix"), ReadOptional(reader, prefix + "offset")};
          CheckPart(part, i);
          profile.parts.push_back(std::move(part));
        }
        if (profile.parts.empty()) throw InputError("it has no parts and changes nothing: adapt the model again");
        return profile;
      },
      [&] { return fmt::format("reading profile '{}'", path.string()); });
}

SpeakerProfile ExtractProfile(const Model& adapted, const Model& original) {
  SpeakerProfile profile;
  profile.model = ModelId(original.network);
  const std::vector<LayerParts> before = TakeApart(original.network);
  size_t next = 0;
  std::string after;
  for (const LayerParts& layer : TakeApart(adapted.network)) {
    if (next < before.size() && layer.name == before[next].name) {
      if (!SameLayer(layer, before[next])) {
        Throw<InputError>("layer '{}' differs from the shared model's: that fits no profile", layer.name);
      }
      after = before[next++].name;
    } else if (TraitsOf(layer).profile != LayerTraits::ProfilePart::kNone) {
      profile.parts.push_back(PartOf(layer, after));
    } else {
      Throw<InputError>("layer '{}' of type '{}' fits no profile", layer.name, layer.type);
    }
  }
  if (next != before.size()) Throw<InputError>("layer '{}' of the shared model is gone", before[next].name);
  return profile;
}

void RequireProfileFits(const SpeakerProfile& profile, const std::string& model_id) {
  if (profile.model == model_id) return;
  Throw<InputError>("the profile{} is for model {}, not for this one ({}): adapt this model to the speaker",
                    profile.speaker.empty() ? "" : fmt::format(" of '{}'", profile.speaker), profile.model, model_id);
}

}  // namespace antiphon::nn
