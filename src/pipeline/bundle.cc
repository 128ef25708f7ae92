#include "pipeline/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/archive.h"
#include "base/error.h"
#include "base/file.h"
#include "decode/graph/graph.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/chosen_weights.h"
#include "pipeline/load_rescorer.h"
#include "pipeline/new_words.h"
#include "vad/speech_model.h"
#include "written/written_form.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kCard = "card.json";
constexpr const char* kEnding = ".antiphon";
constexpr const char* kWritten = "written/";
constexpr uint64_t kMostToCheck = uint64_t{1} << 20;
constexpr std::array kGraphFiles = {"HCLG.fst", "graph.json", "lexicon.txt", "words.txt"};
// Of a graph made with --on-the-fly.
constexpr std::array kPartFiles = {
    "G.safetensors", "HCL.fst", "graph.json", "lexicon.txt", "pronunciations.safetensors", "words.txt"};

// Larger files that have checksums of their own, inside or in graph.json, which whoever maps them compares. Others of
// any size are read through when they are used, so that another reading costs little.
bool IsCheckedByItsReader(const std::string& name, uint64_t bytes) {
  const fs::path file = fs::path(name).filename();
  return bytes > kMostToCheck && (file.extension() == ".safetensors" || file == "HCLG.fst" || file == "HCL.fst");
}

std::string Hex(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// A part, and the file that it comes from.
struct Source {
  std::string name;
  fs::path file;
};

void AddGraph(const std::string& name, const fs::path& folder, std::vector<Source>& sources) {
  const auto add = [&](const auto& files) {
    for (const char* file : files) sources.push_back({fmt::format("{}/{}", name, file), folder / file});
  };
  if (fs::exists(folder / "HCL.fst") && !fs::exists(folder / "HCLG.fst")) {
    add(kPartFiles);
  } else {
    add(kGraphFiles);
  }
}

// What is there where recipes leave it; of model files in the folder itself, that.
BundleParts PartsOfExperiment(const fs::path& folder) {
  BundleParts parts;
  const auto take = [](std::string& place, const fs::path& there) {
    if (place.empty() && fs::exists(there)) place = there.string();
  };
  take(parts.model, folder / "model.safetensors");
  take(parts.model, folder / "ensemble" / "model.safetensors");
  take(parts.model, folder / "network" / "model.safetensors");
  take(parts.graph, folder / "graph");
  take(parts.adapt_graph, folder / "graph-gmm");
  take(parts.weights, folder / "decode-dev" / "weights.toml");
  take(parts.vad, folder / "vad" / "network" / "model.safetensors");
  if (!parts.graph.empty()) take(parts.lexicon, fs::path(parts.graph) / "lexicon.txt");
  return parts;
}

// The request with the places of a recipe's folder where it says nothing.
BundleRequest Completed(BundleRequest request) {
  if (!request.experiment.empty()) {
    const fs::path exp = request.experiment;
    if (!fs::is_directory(exp)) Throw<InputError>("there is no experiment '{}'", exp.string());
    const BundleParts parts = PartsOfExperiment(exp);
    CompleteBy(request.model, parts.model);
    CompleteBy(request.graph, parts.graph);
    CompleteBy(request.adapt_graph, parts.adapt_graph);
    CompleteBy(request.weights, parts.weights);
    CompleteBy(request.vad, parts.vad);
  }
  const auto require = [&](const std::string& place, const char* option) {
    if (!place.empty()) return;
    if (request.experiment.empty()) Throw<UsageError>("--{} is missing, or --experiment, a folder with one", option);
    Throw<InputError>("'{}' has no {} where recipes leave it; name it with --{}", request.experiment, option, option);
  };
  require(request.model, "model");
  require(request.graph, "graph");
  if (request.rescore_arpa.empty() != request.graph_arpa.empty()) {
    Throw<UsageError>("--rescore-arpa and --graph-arpa belong together: one replaces the other in lattices");
  }
  if (request.name.empty()) request.name = fs::path(request.out).stem().string();
  return request;
}

// Files that can be read.
std::vector<std::string> WrittenFiles(const std::string& place) {
  if (place.empty()) return {};
  if (place == written::kEnglish) {
    throw UsageError(
        "--written english: a bundle takes files; write them with antiphon written rules english NAME.fst");
  }
  std::vector<std::string> files = written::FilesOf(place);
  written::WrittenForm::Load(files, /*fold_case=*/true);
  return files;
}

std::vector<Source> SourcesOf(const BundleRequest& request) {
  std::vector<Source> sources = {{"model.safetensors", request.model}};
  AddGraph("graph", request.graph, sources);
  if (!request.adapt_graph.empty()) AddGraph("adapt-graph", request.adapt_graph, sources);
  if (!request.weights.empty()) sources.push_back({"weights.toml", request.weights});
  const auto add_arpa = [&](const char* name, const std::string& file) {
    if (!file.empty()) sources.push_back({std::string(name) + (file.ends_with(".gz") ? ".gz" : ""), file});
  };
  add_arpa("graph.arpa", request.graph_arpa);
  add_arpa("rescore.arpa", request.rescore_arpa);
  if (!request.g2p.empty()) sources.push_back({"words.g2p", request.g2p});
  if (!request.vad.empty()) sources.push_back({"vad.safetensors", request.vad});
  for (const std::string& file : WrittenFiles(request.written)) {
    sources.push_back({kWritten + fs::path(file).filename().string(), file});
  }
  return sources;
}

// What the recipe's decoding of its test set says; an object without members: nothing.
Json TestSummary(const std::string& experiment) {
  const fs::path summary = fs::path(experiment) / "decode-test" / "summary.json";
  if (experiment.empty() || !fs::exists(summary)) return Json::object();
  Json found = Json::parse(ReadFile(summary), nullptr, false);
  return found.is_object() ? found : Json::object();
}

// How fast that was; null: not known.
Json SpeedOf(const Json& summary) {
  if (!summary.contains("real_time_factor")) return nullptr;
  return {{"real_time_factor", summary["real_time_factor"]}, {"speech_seconds", summary.value("speech_seconds", 0.0)}};
}

// What pronounces new words says of itself; its phones have to be the graph's.
Json CheckedG2p(const std::string& file, const decode::Graph& graph) {
  const g2p::Model model = g2p::Model::Load(file);
  RequirePhones(model, *graph.lexicon(), file);
  return Json::parse(model.description());
}

Json MakeCard(const BundleRequest& request, const std::vector<Source>& sources) {
  // What does not fit together is not put together.
  const auto model = AcousticModel::Load(request.model, {});
  const decode::Graph graph = decode::Graph::Load(request.graph, model->hmm());
  const hmm::GmmModel* const adaptive = model->adaptive();
  if (adaptive != nullptr && !request.adapt_graph.empty()) decode::Graph::Load(request.adapt_graph, adaptive->hmm);
  LoadRescorer(request.rescore_arpa, request.graph_arpa, graph);
  if (!request.weights.empty()) ReadChosenWeights(request.weights);
  if (!request.vad.empty()) vad::SpeechModel::Load(request.vad);
  const Json pronounces = request.g2p.empty() ? Json() : CheckedG2p(request.g2p, graph);
  const Json test = TestSummary(request.experiment);
  Json card = {{"format", kFormat},
               {"name", request.name},
               {"licence", request.licence},
               {"speech", request.speech},
               {"made_by", fmt::format("antiphon {}", ANTIPHON_VERSION)},
               {"kind", model->network() ? "network" : "Gaussian mixtures"},
               {"words", graph.words().size()},
               {"test", test.value("score", Json())},
               {"speed", SpeedOf(test)},
               {"bytes", 0},
               {"files", Json::array()}};
  uint64_t all = 0;
  for (const Source& source : sources) {
    const MappedFile file(source.file);
    all += file.bytes().size();
    card["files"].push_back(
        {{"name", source.name}, {"bytes", file.bytes().size()}, {"checksum", Hex(Checksum(file.bytes()))}});
  }
  card["bytes"] = all;
  if (!request.g2p.empty()) card["g2p"] = pronounces;
  return card;
}

void WriteFile(const BundleRequest& request, const std::vector<Source>& sources, const std::string& card) {
  ArchiveWriter archive(request.out);
  archive.Add(kCard, std::as_bytes(std::span(card)));
  for (const Source& source : sources) archive.Add(source.name, MappedFile(source.file).bytes());
  archive.Commit();
}

// Without a card there is no bundle: it goes first and comes back last.
void WriteFolder(const BundleRequest& request, const std::vector<Source>& sources, const std::string& card) {
  const fs::path out = request.out;
  std::error_code none;
  fs::remove(out / kCard, none);
  for (const Source& source : sources) {
    const MappedFile file(source.file);
    WriteFileAtomically(out / source.name, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  WriteFileAtomically(out / kCard, card);
}

// Whether `name` has `bytes` there, in a folder or an archive.
class Contents {
 public:
  explicit Contents(const fs::path& place) : place_(place) {
    if (fs::is_directory(place)) return;
    members_.emplace();
    for (const ArchiveMember& member : ListArchive(place)) members_->emplace(member.name, member.size);
  }
  std::optional<uint64_t> Size(const std::string& name) const {
    if (members_) {
      const auto member = members_->find(name);
      return member == members_->end() ? std::nullopt : std::optional(member->second);
    }
    std::error_code none;
    const uint64_t size = fs::file_size(place_ / name, none);
    return none ? std::nullopt : std::optional(size);
  }

 private:
  fs::path place_;
  std::optional<std::map<std::string, uint64_t>> members_;
};

void CheckFiles(const fs::path& place, const Json& card) {
  const Contents contents(place);
  for (const Json& file : card.at("files")) {
    const std::string name = file.at("name");
    const uint64_t bytes = file.at("bytes");
    const auto size = contents.Size(name);
    if (!size) Throw<InputError>("'{}' lacks its file '{}'; copy the whole of it again", place.string(), name);
    const bool whole =
        *size == bytes && (IsCheckedByItsReader(name, bytes) ||
                           Hex(Checksum(MappedFile(place / name).bytes())) == file.at("checksum").get<std::string>());
    if (!whole) Throw<InputError>("'{}' is damaged: '{}' is not what its card describes", place.string(), name);
  }
}

}  // namespace

bool IsBundle(const fs::path& place) {
  std::error_code none;
  if (fs::is_directory(place, none)) return fs::exists(place / kCard, none);
  // TensorBoard's files end in the name of the machine, or here of the program.
  return place.extension() == kEnding && !place.filename().string().starts_with("events.out.tfevents");
}

Json ReadBundleCard(const fs::path& place) {
  const fs::path file = place / kCard;
  if (fs::exists(place) && !IsThere(file)) {
    Throw<InputError>("'{}' is no recogniser: it has no {}", place.string(), kCard);
  }
  Json card = Json::parse(ReadFile(file), nullptr, false);
  if (!card.is_object() || !card.contains("format") || !card["format"].is_number_integer()) {
    Throw<InputError>("'{}' is no card of a recogniser: expected a JSON object with \"format\"", file.string());
  }
  if (card["format"] != kFormat) {
    Throw<InputError>("'{}' is of format {} (made by {}): this program, antiphon {}, reads format {}", place.string(),
                      card["format"].dump(), card.value("made_by", "an unknown program"), ANTIPHON_VERSION, kFormat);
  }
  return card;
}

BundleParts OpenBundle(const fs::path& place) {
  const Json card = ReadBundleCard(place);
  BundleParts parts;
  const std::map<std::string, std::string BundleParts::*> known = {
      {"model.safetensors", &BundleParts::model},   {"weights.toml", &BundleParts::weights},
      {"graph.arpa", &BundleParts::graph_arpa},     {"graph.arpa.gz", &BundleParts::graph_arpa},
      {"rescore.arpa", &BundleParts::rescore_arpa}, {"words.g2p", &BundleParts::g2p},
      {"vad.safetensors", &BundleParts::vad},       {"rescore.arpa.gz", &BundleParts::rescore_arpa},
      {"graph/lexicon.txt", &BundleParts::lexicon}};
  try {
    CheckFiles(place, card);
    for (const Json& file : card.at("files")) {
      const std::string name = file.at("name");
      if (const auto part = known.find(name); part != known.end()) parts.*part->second = (place / name).string();
      if (name.starts_with(kWritten)) parts.written.push_back((place / name).string());
      if (name == "graph/graph.json") parts.graph = (place / "graph").string();
      if (name == "adapt-graph/graph.json") parts.adapt_graph = (place / "adapt-graph").string();
    }
  } catch (const nlohmann::json::exception& e) {
    Throw<InputError>("'{}' has a card that is not understood ({})", place.string(), e.what());
  }
  if (parts.model.empty() || parts.graph.empty()) {
    Throw<InputError>("'{}' holds no {}", place.string(), parts.model.empty() ? "model.safetensors" : "graph");
  }
  return parts;
}

Json WriteBundle(const BundleRequest& given) {
  const BundleRequest request = Completed(given);
  const std::vector<Source> sources = SourcesOf(request);
  Json card = MakeCard(request, sources);
  const std::string text = card.dump(2) + "\n";
  if (fs::path(request.out).extension() == kEnding) {
    WriteFile(request, sources, text);
  } else {
    WriteFolder(request, sources, text);
  }
  OpenBundle(request.out);
  return card;
}

BundleParts PartsAt(const std::string& model) {
  if (!model.empty() && !IsThere(model)) Throw<IoError>("there is no model or recogniser '{}'", model);
  if (IsBundle(model)) return OpenBundle(model);
  if (fs::is_directory(model)) {
    BundleParts parts = PartsOfExperiment(model);
    if (!parts.model.empty()) return parts;
    Throw<InputError>(
        "'{}' is a folder but no recogniser: it has neither {} nor what recipes leave, model.safetensors or "
        "network/model.safetensors",
        model, kCard);
  }
  BundleParts parts;
  parts.model = model;
  return parts;
}

std::string GraphOf(const BundleParts& parts, const std::string& given) {
  if (!given.empty()) return given;
  if (!parts.graph.empty()) return parts.graph;
  Throw<UsageError>(
      "the graph is missing, a folder that antiphon graph made for the model '{}' (a recogniser by antiphon bundle has "
      "its own; of a recipe's folder, FOLDER/graph is taken)",
      parts.model);
}

void RequireLexicon(const BundleParts& parts) {
  if (!parts.lexicon.empty()) return;
  Throw<UsageError>(
      "the lexicon is missing (as the model, a recogniser by antiphon bundle has its own; of a recipe's folder, "
      "FOLDER/graph/lexicon.txt is taken; this model is '{}')",
      parts.model);
}

std::shared_ptr<const hmm::Lexicon> LexiconOf(const BundleParts& parts, const std::string& named,
                                              const hmm::LexiconOptions& options, const hmm::HmmModel& hmm) {
  if (!named.empty()) return std::make_shared<const hmm::Lexicon>(hmm::Lexicon::Load(named, options, hmm.phones()));
  RequireLexicon(parts);
  return decode::Graph::Load(parts.graph, hmm).lexicon();
}

}  // namespace antiphon::pipeline
