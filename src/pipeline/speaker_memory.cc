#include "pipeline/speaker_memory.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "feat/front_end.h"
#include "math/safetensors.h"

namespace antiphon {
namespace {

constexpr char kFormat[] = "antiphon-speaker-memory";
constexpr char kVersion[] = "1";

feat::FrontEndOptions FrontEndOf(const AcousticModel& model) {
  return ReadOptions<feat::FrontEndOptions>(Config::Parse(model.features(), "the model's features"));
}

// Of the front end and the extractor: the numbers mean nothing to others.
std::string MadeFor(const AcousticModel& model) {
  std::string bytes = OptionsToConfig(FrontEndOf(model)).ToToml();
  if (const auto network = model.network()) {
    for (const auto* part : {&network->model().ivector_extractor, &network->model().speaker_model}) {
      bytes += std::string_view(reinterpret_cast<const char*>(part->data()), part->size());
    }
  }
  return fmt::format("{:016x}", Checksum(bytes));
}

double One(const SafetensorsReader& reader, const char* name) {
  const std::vector<double> values = reader.ReadDoubles(name);
  if (values.size() != 1 || !(values[0] >= 0) || !std::isfinite(values[0])) {
    Throw<InputError>("'{}' is not one number of 0 or more", name);
  }
  return values[0];
}

std::vector<double> Finite(const SafetensorsReader& reader, const char* name, size_t size) {
  std::vector<double> values = reader.ReadDoubles(name);
  if (!values.empty() && values.size() != size) {
    Throw<InputError>("'{}' has {} numbers, expected {}", name, values.size(), size);
  }
  if (!std::ranges::all_of(values, [](double v) { return std::isfinite(v); })) {
    Throw<InputError>("'{}' has values that are not finite", name);
  }
  return values;
}

pipeline::LearntTransform Learnt(const SafetensorsReader& reader, size_t dim) {
  if (!reader.Has("learnt.frames")) return {};  // of a program that kept none
  const size_t values = dim * (dim + 1);
  pipeline::LearntTransform learnt{.heard = {One(reader, "learnt.frames"), Finite(reader, "learnt.linear", values),
                                             Finite(reader, "learnt.quadratic", dim * (dim + 1) * (dim + 2) / 2)},
                                   .estimated_from = One(reader, "learnt.estimated_from"),
                                   .transform = Finite(reader, "learnt.transform", values)};
  if (learnt.heard.linear.empty() != learnt.heard.quadratic.empty() ||
      learnt.heard.linear.empty() != (learnt.heard.posterior == 0)) {
    throw InputError("'learnt.frames', 'learnt.linear' and 'learnt.quadratic' disagree");
  }
  if (learnt.transform.empty() != (learnt.estimated_from == 0) || learnt.estimated_from > learnt.heard.posterior) {
    throw InputError("'learnt.transform', 'learnt.estimated_from' and 'learnt.frames' disagree");
  }
  return learnt;
}

}  // namespace

bool SlidesMean(const AcousticModel& model) {
  return model.network() != nullptr && model.normalisation() != "none" && FrontEndOf(model).mean_window == 0;
}

bool UsesMemory(const AcousticModel& model) {
  const bool takes_mean_out = SlidesMean(model) || (!model.features().empty() && FrontEndOf(model).mean_window > 0);
  return model.ivectors() != nullptr || model.transform() != nullptr || takes_mean_out;
}

void SaveMemory(const RememberedSpeaker& memory, const AcousticModel& model, const std::filesystem::path& path) {
  SafetensorsWriter writer;
  writer.SetMetadata("format", kFormat);
  writer.SetMetadata("version", kVersion);
  writer.SetMetadata("speaker", memory.speaker);
  writer.SetMetadata("made_for", MadeFor(model));
  writer.Add("mean.frames", std::span<const double>(&memory.mean.frames, 1));
  writer.Add("mean.sum", std::span<const double>(memory.mean.sum));
  writer.Add("mean.square", std::span<const double>(memory.mean.square));
  writer.Add("heard.count", std::span<const double>(&memory.heard.count, 1));
  writer.Add("heard.linear", std::span<const double>(memory.heard.linear));
  writer.Add("heard.quadratic", std::span<const double>(memory.heard.quadratic));
  writer.Add("learnt.frames", std::span<const double>(&memory.learnt.heard.posterior, 1));
  writer.Add("learnt.linear", std::span<const double>(memory.learnt.heard.linear));
  writer.Add("learnt.quadratic", std::span<const double>(memory.learnt.heard.quadratic));
  writer.Add("learnt.estimated_from", std::span<const double>(&memory.learnt.estimated_from, 1));
  writer.Add("learnt.transform", std::span<const double>(memory.learnt.transform));
  writer.Write(path);
}

RememberedSpeaker LoadMemory(const std::filesystem::path& path, const AcousticModel& model) {
  return WithContext(
      [&] {
        const SafetensorsReader reader(path);
        if (reader.MetadataOr("format", "") != kFormat) {
          Throw<InputError>("this is no memory of a speaker (metadata 'format' is '{}', expected '{}')",
                            reader.MetadataOr("format", ""), kFormat);
        }
        if (reader.Metadata("version") != kVersion) {
          Throw<InputError>("it has version {}, this program reads version {}: begin anew, with another name",
                            reader.Metadata("version"), kVersion);
        }
        if (reader.Metadata("made_for") != MadeFor(model)) {
          throw InputError(
              "it was made with another model, of other features, another i-vector extractor or other Gaussians: begin "
              "anew, with another name or folder");
        }
        RememberedSpeaker memory{.speaker = reader.Metadata("speaker")};
        const auto dim = static_cast<size_t>(feat::FrontEnd(FrontEndOf(model)).dim());
        const size_t numbers = model.ivectors() ? static_cast<size_t>(model.ivectors()->dim()) : 0;
        memory.mean = {One(reader, "mean.frames"), Finite(reader, "mean.sum", dim), {}};
        if (reader.Has("mean.square")) memory.mean.square = Finite(reader, "mean.square", dim);
        memory.heard = {One(reader, "heard.count"), Finite(reader, "heard.linear", numbers),
                        Finite(reader, "heard.quadratic", numbers * (numbers + 1) / 2)};
        memory.learnt =
            Learnt(reader, model.transform() != nullptr ? static_cast<size_t>(model.transform()->out_dim()) : 0);
        if (memory.mean.sum.empty() != (memory.mean.frames == 0) ||
            memory.mean.square.size() != (SlidesMean(model) ? memory.mean.sum.size() : 0)) {
          throw InputError("'mean.frames', 'mean.sum' and 'mean.square' disagree");
        }
        if (!std::ranges::all_of(memory.mean.square, [](double v) { return v >= 0; })) {
          throw InputError("'mean.square' has negative values");
        }
        if (memory.heard.linear.empty() != memory.heard.quadratic.empty()) {
          throw InputError("'heard.linear' and 'heard.quadratic' disagree");
        }
        return memory;
      },
      [&] { return fmt::format("memory of a speaker, '{}'", path.string()); });
}

std::filesystem::path MemoryFile(const std::filesystem::path& folder, const std::string& speaker) {
  if (speaker.empty() || speaker.starts_with('.') || speaker.find_first_of("/\\\0", 0, 3) != std::string::npos) {
    Throw<UsageError>("'{}' is no name of a speaker: it names a file, and has no slash and no dot in front", speaker);
  }
  return folder / (speaker + ".safetensors");
}

}  // namespace antiphon
