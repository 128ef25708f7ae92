#include "nn/model.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "math/finite_tensors.h"
#include "math/safetensors.h"
#include "nn/parameter_storage.h"

namespace antiphon::nn {
namespace {

// base/file.h's Checksum of what comes in pieces.
class StreamedChecksum {
 public:
  StreamedChecksum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  StreamedChecksum(const StreamedChecksum&) = delete;
  ~StreamedChecksum() { XXH3_freeState(state_); }
  void Add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
  uint64_t Digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

constexpr char kModelFormat[] = "antiphon-model";
constexpr char kVersion[] = "1";
constexpr char kSpeakerModel[] = "speaker_model";
constexpr char kIvectorExtractor[] = "ivector_extractor";
constexpr char kDescriptionPrefix[] = "description.";

int MetadataInt(const SafetensorsReader& reader, const std::string& key, int least = 0) {
  const std::string& text = reader.Metadata(key);
  size_t used = 0;
  int value = 0;
  try {
    value = std::stoi(text, &used);
  } catch (const std::exception&) {
    used = std::string::npos;
  }
  if (used != text.size() || value < least)
    Throw<InputError>("metadata '{}' must be a whole number, found '{}'", key, text);
  return value;
}

void CheckHeader(const SafetensorsReader& reader) {
  if (reader.MetadataOr("format", "") != kModelFormat) {
    Throw<InputError>("this is no model of Antiphon (metadata 'format' is '{}', expected '{}')",
                      reader.MetadataOr("format", ""), kModelFormat);
  }
  if (reader.Metadata("version") != kVersion) {
    Throw<InputError>("the model has version {}, this program reads version {}: use a newer program",
                      reader.Metadata("version"), kVersion);
  }
  if (!reader.has_checksum())
    Throw<InputError>("the model's checksum is missing: the file was changed after it was written");
}

void AddValues(const Network& outline, const Model::Values& values, SafetensorsWriter& writer) {
  std::map<const Parameter*, std::unique_ptr<Parameter>> whole;
  for (const Parameter* p : SavedOrder(outline)) {
    if (IsStoredAsItIs(*p)) {
      writer.AddProduced(p->name, p->whole.rows, p->whole.cols, [p, &values](const auto& take) { values(*p, take); });
      continue;
    }
    auto collected = std::make_unique<Parameter>(p->name, p->whole.rows, p->whole.cols);
    collected->storage = p->storage;
    if (p->mask != nullptr) collected->mask = whole.at(p->mask).get();
    float* at = collected->value.data();
    values(*p, [&](std::span<const float> piece) { at = std::ranges::copy(piece, at).out; });
    CHECK_EQ(at - collected->value.data(), collected->value.size()) << p->name;
    AddParameter(*collected, writer);
    if (p->storage == Storage::kBits) whole[p] = std::move(collected);  // others may need it as their mask
  }
}

}  // namespace

void Model::Validate() const {
  const int64_t spliced = int64_t{feature_dim} * (left_context + 1 + right_context);
  if (feature_dim > 0 && spliced != network.in_dim()) {
    Throw<InputError>(
        "the network takes {} values per frame, but {} features with {} frames before and {} after give {}",
        network.in_dim(), feature_dim, left_context, right_context, spliced);
  }
  if (frames_per_forward < 1 || network.out_dim() % frames_per_forward != 0) {
    Throw<InputError>("{} outputs cannot be those of {} frames", network.out_dim(), frames_per_forward);
  }
  if (frame_subsampling != 1 && frame_subsampling != network.time_context().stride) {
    Throw<InputError>("the HMM has a frame for every {} of the features, but the network gives an output for every {}",
                      frame_subsampling, network.time_context().stride);
  }
  if (!log_priors.empty() && log_priors.size() != static_cast<size_t>(num_pdfs())) {
    Throw<InputError>("the network has {} outputs per frame, but there are {} priors", num_pdfs(), log_priors.size());
  }
  for (size_t i = 0; i < log_priors.size(); ++i) {
    if (std::isnan(log_priors[i]) || log_priors[i] > 0) {
      Throw<InputError>("the logarithm of prior {} is {}, which is not that of a probability", i, log_priors[i]);
    }
  }
}

Model Model::Clone() const {
  Model copy;
  copy.network = network.Clone();
  copy.feature_config = feature_config;
  copy.feature_dim = feature_dim;
  copy.left_context = left_context;
  copy.right_context = right_context;
  copy.frames_per_forward = frames_per_forward;
  copy.first_frame_offset = first_frame_offset;
  copy.frame_subsampling = frame_subsampling;
  copy.hmm_json = hmm_json;
  copy.speaker_model = speaker_model;
  copy.ivector_extractor = ivector_extractor;
  copy.log_priors = log_priors;
  copy.descriptions = descriptions;
  return copy;
}

void Model::Save(const std::filesystem::path& path, const Values& values) const {
  Validate();
  SafetensorsWriter writer;
  if (values) {
    AddValues(network, values, writer);
  } else {
    for (const auto all : {network.parameters(), network.buffers()}) {
      for (const Parameter* p : all) AddParameter(*p, writer);
    }
  }
  if (!log_priors.empty()) writer.Add("log_priors", std::span<const float>(log_priors));
  if (!speaker_model.empty()) {
    writer.Add(kSpeakerModel, TensorType::kU8, {std::ssize(speaker_model)}, speaker_model);
  }
  if (!ivector_extractor.empty()) {
    writer.Add(kIvectorExtractor, TensorType::kU8, {std::ssize(ivector_extractor)}, ivector_extractor);
  }
  writer.SetMetadata("format", kModelFormat);
  writer.SetMetadata("version", kVersion);
  writer.SetMetadata("network", network.ToToml());
  writer.SetMetadata("in_dim", std::to_string(network.in_dim()));
  writer.SetMetadata("out_dim", std::to_string(network.out_dim()));
  writer.SetMetadata("features", feature_config);
  writer.SetMetadata("feature_dim", std::to_string(feature_dim));
  writer.SetMetadata("left_context", std::to_string(left_context));
  writer.SetMetadata("right_context", std::to_string(right_context));
  if (frames_per_forward > 1) {
    writer.SetMetadata("frames_per_forward", std::to_string(frames_per_forward));
    writer.SetMetadata("first_frame_offset", std::to_string(first_frame_offset));
  }
  if (frame_subsampling > 1) writer.SetMetadata("frame_subsampling", std::to_string(frame_subsampling));
  writer.SetMetadata("hmm", hmm_json);
  for (const auto& [key, value] : descriptions) writer.SetMetadata(kDescriptionPrefix + key, value);
  writer.Write(path);
}

Model Model::Load(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  return WithContext(
      [&] {
        CheckHeader(reader);
        RequireFinite(reader, /*but_for=*/"log_priors");  // −∞ is that of a class without data
        Model model;
        int64_t values = 0;
        for (const std::string& name : reader.Names()) {
          if (name != kSpeakerModel && name != kIvectorExtractor) values += MostValues(reader, name);
        }
        try {
          const ScopedParameterLimit limit(values);
          model.network =
              Network(Config::Parse(reader.Metadata("network"), path.string() + " (network)"),
                      MetadataInt(reader, "in_dim"), MetadataInt(reader, "out_dim"), 0, InitialValues::kToBeSet);
        } catch (const UsageError& e) {
          Throw<InputError>("its network cannot be built: {}", e.what());
        }
        // Masks are buffers, and say where the parameters' values go.
        for (const auto parameters : {model.network.buffers(), model.network.parameters()}) {
          for (Parameter* p : parameters) {
            ReadParameter(reader, *p);
            p->MarkChanged();
          }
        }
        const auto read_file = [&](const char* name, std::vector<std::byte>& file) {
          if (!reader.Has(name)) return;
          const auto bytes = reader.Tensor(name).data;
          file.assign(bytes.begin(), bytes.end());
        };
        read_file(kSpeakerModel, model.speaker_model);
        read_file(kIvectorExtractor, model.ivector_extractor);
        if (reader.Has("log_priors")) model.log_priors = reader.ReadFloats("log_priors");
        model.feature_config = reader.Metadata("features");
        model.feature_dim = MetadataInt(reader, "feature_dim");
        model.left_context = MetadataInt(reader, "left_context");
        model.right_context = MetadataInt(reader, "right_context");
        if (reader.metadata().contains("frames_per_forward")) {
          model.frames_per_forward = MetadataInt(reader, "frames_per_forward", 1);
          model.first_frame_offset = MetadataInt(reader, "first_frame_offset", std::numeric_limits<int>::min());
        }
        if (reader.metadata().contains("frame_subsampling")) {
          model.frame_subsampling = MetadataInt(reader, "frame_subsampling", 1);
        }
        model.hmm_json = reader.Metadata("hmm");
        for (const auto& [key, value] : reader.metadata()) {
          if (key.starts_with(kDescriptionPrefix)) {
            model.descriptions[key.substr(sizeof kDescriptionPrefix - 1)] = value;
          }
        }
        model.Validate();
        return model;
      },
      [&] { return fmt::format("reading model '{}'", path.string()); });
}

std::vector<const Parameter*> SavedOrder(const Network& network) {
  std::vector<const Parameter*> order;
  for (const auto all : {network.buffers(), network.parameters()}) order.insert(order.end(), all.begin(), all.end());
  const auto as_they_are =
      std::stable_partition(order.begin(), order.end(), [](const Parameter* p) { return !IsStoredAsItIs(*p); });
  std::sort(as_they_are, order.end(), [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  return order;
}

uint64_t HashOf(const Network& outline, const Model::Values& values) {
  StreamedChecksum all;
  for (const Parameter* p : outline.parameters()) {
    size_t bytes = 0;
    values(*p, [&](std::span<const float> piece) {
      all.Add(std::as_bytes(piece));
      bytes += piece.size_bytes();
    });
    constexpr std::byte kGap[64] = {};
    all.Add(std::span(kGap).first((sizeof kGap - bytes % sizeof kGap) % sizeof kGap));
  }
  uint64_t hash = all.Digest();
  for (const Parameter* p : outline.buffers()) {
    StreamedChecksum one;
    values(*p, [&](std::span<const float> piece) { one.Add(std::as_bytes(piece)); });
    hash = MixSeed(hash, one.Digest());
  }
  return hash;
}

}  // namespace antiphon::nn
