// Files of i-vector extractors.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "hmm/ivector.h"
#include "math/safetensors.h"

namespace antiphon::hmm {
namespace {

constexpr char kFormat[] = "antiphon-ivector-extractor";
constexpr char kVersion[] = "2";
constexpr char kTrainAgain[] = "train the extractor again";

void CheckWeights(std::span<const float> weights) {
  double sum = 0;
  for (size_t g = 0; g < weights.size(); ++g) {
    if (!(weights[g] >= 0)) Throw<InputError>("Gaussian {} has weight {}: {}", g, weights[g], kTrainAgain);
    sum += static_cast<double>(weights[g]);
  }
  if (!(std::abs(sum - 1) < 1e-3)) Throw<InputError>("the weights add up to {}, not to 1: {}", sum, kTrainAgain);
}

// Those of a variability that has values which are not finite, or whose squares are not.
void CheckPrecisions(const IvectorExtractor& extractor) {
  for (int g = 0; g < extractor.background().num_gaussians(); ++g) {
    if (std::ranges::all_of(extractor.Precision(g), [](double v) { return std::isfinite(v); })) continue;
    Throw<InputError>("the variability of Gaussian {} is not finite, or too large: {}", g, kTrainAgain);
  }
}

FeatureTransform ReadTransform(const SafetensorsReader& reader) {
  const std::vector<int64_t> context = reader.ReadInts("context");
  if (context.size() != 2) Throw<InputError>("'context' has {} numbers, expected 2: {}", context.size(), kTrainAgain);
  constexpr int64_t kMost = 1000;
  for (const int64_t frames : context) {
    if (frames < 0 || frames > kMost) Throw<InputError>("a context of {} frames: {}", frames, kTrainAgain);
  }
  Matrix matrix = reader.ReadMatrix("transform");
  if (!std::all_of(matrix.data(), matrix.data() + matrix.size(), [](float v) { return std::isfinite(v); })) {
    Throw<InputError>("the transform has values that are not finite: {}", kTrainAgain);
  }
  return {static_cast<int>(context[0]), static_cast<int>(context[1]), std::move(matrix)};
}

IvectorOptions ReadUse(const SafetensorsReader& reader) {
  try {
    return ReadOptions<IvectorOptions>(Config::Parse(reader.Metadata("options"), "options"));
  } catch (const UsageError& e) {
    Throw<InputError>("its options cannot be read: {}", e.what());
  }
}

}  // namespace

void IvectorExtractor::Save(const std::filesystem::path& path) const {
  SafetensorsWriter writer;
  writer.SetMetadata("format", kFormat);
  writer.SetMetadata("version", kVersion);
  writer.SetMetadata("options", OptionsToConfig(options_).ToToml());
  writer.Add("weights", background_.weights());
  writer.Add("means", background_.means().view());
  writer.Add("variances", background_.variances().view());
  writer.Add("variability", ToFloat(variability_).view());
  writer.Add("transform", transform_.matrix().view());
  const std::vector<int32_t> context = {transform_.left(), transform_.right()};
  writer.Add("context", std::span<const int32_t>(context));
  writer.Add("prior_offset", std::span<const double>(&prior_offset_, 1));
  writer.Write(path);
}

IvectorExtractor IvectorExtractor::Load(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  return Read(reader);
}

IvectorExtractor IvectorExtractor::Parse(std::span<const std::byte> bytes, const std::string& name) {
  const SafetensorsReader reader(bytes, name);
  return Read(reader);
}

IvectorExtractor IvectorExtractor::Read(const SafetensorsReader& reader) {
  return WithContext(
      [&] {
        if (reader.MetadataOr("format", "") != kFormat) {
          Throw<InputError>("this is no i-vector extractor (metadata 'format' is '{}', expected '{}')",
                            reader.MetadataOr("format", ""), kFormat);
        }
        if (reader.Metadata("version") != kVersion) {
          Throw<InputError>("the extractor has version {}, this program reads version {}: {}",
                            reader.Metadata("version"), kVersion, kTrainAgain);
        }
        std::vector<float> weights = reader.ReadFloats("weights");
        if (!weights.empty()) CheckWeights(weights);
        const std::vector<double> offset = reader.ReadDoubles("prior_offset");
        if (offset.size() != 1) Throw<InputError>("'prior_offset' has {} numbers, expected 1", offset.size());
        std::vector<int32_t> first = {0, static_cast<int32_t>(weights.size())};
        IvectorExtractor extractor(
            GmmSet(std::move(first), std::move(weights), reader.ReadMatrix("means"), reader.ReadMatrix("variances")),
            ReadUse(reader), ReadTransform(reader), offset[0]);
        extractor.SetVariability(reader.ReadDoubleMatrix("variability"));
        CheckPrecisions(extractor);
        return extractor;
      },
      [&] { return fmt::format("reading i-vector extractor '{}'", reader.path().string()); });
}

std::string ExtractorChecksum(std::span<const std::byte> file) { return fmt::format("{:016x}", Checksum(file)); }

}  // namespace antiphon::hmm
