#include "chain/chain_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/file_checksums.h"
#include "math/safetensors.h"

namespace antiphon::chain {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kChainDataFormat = "antiphon-chain-1";

hmm::HmmModel LoadModel(const std::filesystem::path& path) {
  return WithContext([&] { return hmm::HmmModel::FromJson(SafetensorsReader(path).Metadata("hmm")); },
                     [&] { return fmt::format("'{}'", path.string()); });
}

// The step, having checked that the folder is whole and belongs to the model.
int ReadStep(const std::filesystem::path& folder, const hmm::HmmModel& model) {
  const std::filesystem::path path = folder / "chain.json";
  try {
    const Json json = Json::parse(ReadFile(path));
    if (json.at("format") != kChainDataFormat) Throw<InputError>("'{}' is of an unknown format", path.string());
    if (json.at("model_structure") != model.StructureChecksum()) {
      Throw<InputError>("'{}' describes another model than the one beside it; make the folder anew with antiphon chain",
                        path.string());
    }
    const int step = json.at("frames_per_output").get<int>();
    if (step < 1 || step > 100) Throw<InputError>("'{}': {} input frames per output", path.string(), step);
    return step;
  } catch (const Json::exception& e) {
    Throw<InputError>("'{}' does not describe a chain model's data: {}", path.string(), e.what());
  }
}

// Of all references that fit.
void WritePdfs(const ChainData& data, const std::filesystem::path& folder) {
  data::TableWriter<std::vector<int32_t>> table(folder / "pdf.ark", {.checksums = true});
  for (size_t i = 0; i < data.references.size(); ++i) {
    if (const auto pdfs = PdfsByFrame(data, data.references[i])) table.Write(data.references.Id(i), *pdfs);
  }
  table.Close();
}

}  // namespace

References::References(std::map<std::string, Reference> references)
    : references_(std::make_move_iterator(references.begin()), std::make_move_iterator(references.end())) {}

std::optional<size_t> References::Find(std::string_view utt_id) const {
  const auto it = std::ranges::lower_bound(references_, utt_id, {},
                                           [](const auto& entry) { return std::string_view(entry.first); });
  if (it == references_.end() || it->first != utt_id) return std::nullopt;
  return static_cast<size_t>(it - references_.begin());
}

void ChainData::Save(const std::filesystem::path& folder) const {
  MakeFolder(folder);
  std::error_code ignored;
  std::filesystem::remove(folder / "chain.json", ignored);
  SafetensorsWriter writer;
  writer.SetMetadata("format", "antiphon-states-1");
  writer.SetMetadata("hmm", model.ToJson());
  writer.Write(folder / "model.safetensors");
  denominator.Save(folder / "denominator.safetensors", model);
  data::TableWriter<std::vector<int32_t>> phones(folder / "phones.ark", {.checksums = true});
  for (size_t i = 0; i < references.size(); ++i) phones.Write(references.Id(i), ToPairs(references[i]));
  phones.Close();
  WritePdfs(*this, folder);
  const Json json = {
      {"format", kChainDataFormat}, {"model_structure", model.StructureChecksum()}, {"frames_per_output", step}};
  WriteFileAtomically(folder / "chain.json", json.dump(2) + "\n");
}

ChainData ChainData::Load(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "chain.json")) {
    Throw<InputError>("'{}' holds no chain.json: it is not what antiphon chain leaves, or that was interrupted",
                      folder.string());
  }
  hmm::HmmModel model = LoadModel(folder / "model.safetensors");
  const int step = ReadStep(folder, model);
  DenominatorGraph denominator = DenominatorGraph::Load(folder / "denominator.safetensors", model);
  const std::string phones = (folder / "phones.ark").string();
  data::RequireTableAsWritten(phones);
  std::map<std::string, Reference> references;
  for (data::SequentialReader<std::vector<int32_t>> reader(phones); reader.Next();) {
    references[reader.key()] = WithContext([&] { return FromPairs(reader.value(), model.phones().num_phones()); },
                                           [&] { return reader.Where(); });
  }
  return {std::move(model), std::move(denominator), References(std::move(references)), step};
}

std::optional<std::vector<int32_t>> PdfsByFrame(const ChainData& data, const Reference& reference) {
  std::vector<int32_t> pdfs(static_cast<size_t>(reference.num_frames()));
  for (int shift = 0; shift < data.step; ++shift) {
    const auto ends = OutputEnds(reference, shift, data.step);
    if (!ends) return std::nullopt;
    const std::vector<int32_t> on_grid = data.model.ToPdfs(AlignmentOf(data.model, reference.phones, *ends));
    for (size_t u = 0; u < on_grid.size(); ++u) {
      pdfs[u * static_cast<size_t>(data.step) + static_cast<size_t>(shift)] = on_grid[u];
    }
  }
  return pdfs;
}

std::vector<std::pair<std::string, std::string>> FindUnusable(const ChainData& data, const NumeratorOptions& options,
                                                              int num_threads) {
  const ContextPdfs pdfs(data.model);
  std::vector<std::string> problems(data.references.size());
  ParallelFor(data.references.size(), num_threads, [&](size_t i) {
    const Reference& reference = data.references[i];
    for (int shift = 0; shift < options.step; ++shift) {
      const ChunkTimes whole{shift, NumOutputs(reference.num_frames(), shift, options.step)};
      problems[i] = Numerator(data.denominator, pdfs, reference, whole, options).problem();
      if (problems[i].empty()) return;
    }
  });
  std::vector<std::pair<std::string, std::string>> unusable;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (!problems[i].empty()) unusable.emplace_back(data.references.Id(i), problems[i]);
  }
  return unusable;
}

}  // namespace antiphon::chain
