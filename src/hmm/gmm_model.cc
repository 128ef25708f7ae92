#include "hmm/gmm_model.h"

#include "base/error.h"
#include "math/finite_tensors.h"
#include "math/safetensors.h"

namespace antiphon::hmm {
namespace {

void AddGmm(const GmmSet& gmm, const std::string& prefix, SafetensorsWriter* writer) {
  writer->Add(prefix + "first_gaussian", gmm.first_gaussians());
  writer->Add(prefix + "weights", gmm.weights());
  writer->Add(prefix + "means", gmm.means());
  writer->Add(prefix + "variances", gmm.variances());
}

GmmSet ReadGmm(const SafetensorsReader& reader, const std::string& prefix, int num_pdfs) {
  std::vector<int32_t> first;
  for (const int64_t index : reader.ReadInts(prefix + "first_gaussian")) first.push_back(static_cast<int32_t>(index));
  GmmSet gmm(std::move(first), reader.ReadFloats(prefix + "weights"), reader.ReadMatrix(prefix + "means"),
             reader.ReadMatrix(prefix + "variances"));
  if (gmm.num_pdfs() != num_pdfs) Throw<InputError>("{} mixtures for {} tied states", gmm.num_pdfs(), num_pdfs);
  return gmm;
}

GmmModel Read(const SafetensorsReader& reader) {
  if (reader.MetadataOr("format", "") != "antiphon-gmm-1") throw InputError("not a GMM model of this program");
  if (!reader.has_checksum()) throw InputError("its checksum is missing: the file was changed after it was written");
  RequireFinite(reader);
  GmmModel model;
  model.stage = reader.Metadata("stage");
  model.hmm = HmmModel::FromJson(reader.Metadata("hmm"));
  model.lexicon = reader.Metadata("lexicon");
  model.lexicon_options = reader.Metadata("lexicon_options");
  model.features = reader.Metadata("features");
  model.gmm = ReadGmm(reader, "gmm.", model.hmm.num_pdfs());
  if (reader.Has("first_pass.means")) model.first_pass = ReadGmm(reader, "first_pass.", model.hmm.num_pdfs());
  const std::vector<int64_t> context = reader.ReadInts("transform.context");
  const auto fits = [](int64_t frames) { return frames >= 0 && frames <= 1000; };
  if (context.size() != 2 || !fits(context[0]) || !fits(context[1]))
    throw InputError("the transform's context is broken");
  model.transform = FeatureTransform(static_cast<int>(context[0]), static_cast<int>(context[1]),
                                     reader.ReadMatrix("transform.matrix"));
  if (model.transform.out_dim() != model.gmm.dim())
    Throw<InputError>("a transform to {} dimensions for Gaussians of {}", model.transform.out_dim(), model.gmm.dim());
  return model;
}

}  // namespace

void GmmModel::Save(const std::filesystem::path& path) const {
  SafetensorsWriter writer;
  writer.SetMetadata("format", "antiphon-gmm-1");
  writer.SetMetadata("stage", stage);
  writer.SetMetadata("hmm", hmm.ToJson());
  writer.SetMetadata("lexicon", lexicon);
  writer.SetMetadata("lexicon_options", lexicon_options);
  writer.SetMetadata("features", features);
  AddGmm(gmm, "gmm.", &writer);
  if (first_pass) AddGmm(*first_pass, "first_pass.", &writer);
  const int32_t context[] = {transform.left(), transform.right()};
  writer.Add("transform.context", std::span<const int32_t>(context));
  writer.Add("transform.matrix", transform.matrix());
  writer.Write(path);
}

GmmModel GmmModel::Load(const std::filesystem::path& path) {
  return WithContext([&] { return Read(SafetensorsReader(path)); },
                     [&] { return fmt::format("reading the model '{}'", path.string()); });
}

GmmModel GmmModel::Parse(std::span<const std::byte> bytes, const std::string& name) {
  return WithContext([&] { return Read(SafetensorsReader(bytes, name)); },
                     [&] { return fmt::format("reading the model '{}'", name); });
}

GmmScorer GmmModel::FirstPassScores(ConstMatrixView base_features) const {
  return {first_pass ? *first_pass : gmm, transform.Apply(base_features)};
}

GmmScorer GmmModel::AdaptedScores(ConstMatrixView base_features, ConstMatrixView speaker_transform) const {
  return {gmm, transform.Then(speaker_transform).Apply(base_features)};
}

GmmScorer GmmModel::Scores(ConstMatrixView base_features, const Matrix* speaker_transform) const {
  return speaker_transform == nullptr ? FirstPassScores(base_features)
                                      : AdaptedScores(base_features, *speaker_transform);
}

}  // namespace antiphon::hmm
