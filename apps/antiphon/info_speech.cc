// Kinds of antiphon info: sound, language models, graphs, lattices, exported networks.
#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "data/audio_files.h"
#include "data/script.h"
#include "decode/graph/graph_json.h"
#include "decode/graph/word_automaton.h"
#include "decode/lm/ngram.h"
#include "feat/audio.h"
#include "feat/front_end.h"
#include "g2p/model.h"
#include "g2p/unit_aligner.h"
#include "g2p/unit_ngram.h"
#include "hmm/graph/openfst.h"
#include "hmm/lexicon.h"
#include "info_kinds.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/bundle.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json DescribeAudio(const std::string& file, int) {
  const feat::AudioInfo info = feat::ProbeAudio(file);
  return {{"kind", "audio"},
          {"format", info.format},
          {"Hz", info.sample_rate_hz},
          {"channels", info.num_channels},
          {"seconds", fmt::format("{:.2f}", info.duration_s())}};
}

Json DescribeArpa(const std::string& file, int) {
  const decode::NgramModel model = decode::NgramModel::ReadArpa(file);
  Json result = {{"kind", "language model (ARPA)"}, {"words", model.words().size()}};
  for (int order = 1; order <= model.order(); ++order) result[fmt::format("{}-grams", order)] = model.NumNgrams(order);
  return result;
}

Json DescribeFst(const std::string& file, int) {
  std::ifstream stream(file, std::ios::binary);
  fst::FstHeader header;
  if (!header.Read(stream, file)) Throw<InputError>("'{}' is no OpenFst file", file);
  Json json = {{"kind", "transducer (OpenFst)"},
               {"type", header.FstType()},
               {"arcs of type", header.ArcType()},
               {"states", header.NumStates()}};
  if (header.NumArcs() > 0) json["arcs"] = header.NumArcs();  // not every type's header says it
  return json;
}

nlohmann::json GraphDescription(const std::string& folder) {
  auto json = nlohmann::json::parse(ReadFile(fs::path(folder) / "graph.json"), nullptr, false);
  if (!json.is_object()) Throw<InputError>("'{}/graph.json' is no description of a graph", folder);
  return json;
}

bool IsInParts(const nlohmann::json& graph) { return graph.contains("checksums"); }

Json DescribeGraph(const std::string& folder, int) {
  Json result = {{"kind", "decoding graph"}};
  const nlohmann::json json = GraphDescription(folder);
  for (const char* key : {"language_model", "model_structure"}) {
    if (json.contains(key)) result[key] = json[key];
  }
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(fs::path(folder) / "lexicon.txt");
  result["words"] = lexicon.num_words();
  result["pronunciations"] = lexicon.entries().size();
  const bool in_parts = IsInParts(json);
  std::map<std::string, std::string> checksums = {{"HCLG.fst", json.value("fst_checksum", "")}};
  if (in_parts) {
    result["kind"] = "decoding graph (on the fly)";
    checksums = json["checksums"].get<std::map<std::string, std::string>>();
  }
  std::string changed;
  for (const auto& [file, checksum] : checksums) {
    if (decode::HexChecksum(fs::path(folder) / file) != checksum) changed = file;
  }
  result["checksum"] =
      changed.empty() ? "right" : fmt::format("wrong: {} of the graph was changed or cut short", changed);
  const char* const transducer = in_parts ? "HCL.fst" : "HCLG.fst";
  result[transducer] = DescribeFst((fs::path(folder) / transducer).string(), 0);
  if (!in_parts) return result;
  const auto words = decode::WordAutomaton::Load(fs::path(folder) / "G.safetensors", lexicon.num_words());
  result["G.safetensors"] = {{"kind", "language model"}, {"states", words.num_states()}, {"arcs", words.num_arcs()}};
  return result;
}

Json DescribeLatticeScript(const std::string& file, int) {
  return {{"kind", "script of lattices"}, {"utterances", data::ReadScript(file).size()}};
}

// An utterance's lattice begins with a line of its id alone, and ends with an empty line.
Json DescribeLattices(const std::string& file, int entries) {
  const std::string text = ReadMaybeGzipped(file);
  Json first = Json::object();
  int64_t lattices = 0, lines = 0, all_lines = 0;
  std::string id;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (id.empty()) {
      id = line;
      lines = 0;
    } else if (line.empty()) {
      if (lattices++ < entries) first[id] = fmt::format("{} lines", lines);
      id.clear();
    } else {
      ++lines;
      ++all_lines;
    }
  }
  if (!id.empty()) Throw<InputError>("'{}' is cut short: the lattice of '{}' does not end", file, id);
  return {{"kind", "lattices"},
          {"utterances", lattices},
          {"arcs and final states", all_lines},
          {"first utterances", std::move(first)}};
}

Json DescribeOnnx(const std::string& file, int) {
  onnx::ModelProto model;
  if (!model.ParseFromString(ReadFile(file))) Throw<InputError>("'{}' is no ONNX model", file);
  Json result = {{"kind", "network (ONNX)"},
                 {"producer", model.producer_name()},
                 {"nodes", model.graph().node_size()},
                 {"tensors", model.graph().initializer_size()}};
  for (const auto& opset : model.opset_import()) result["opset " + opset.domain()] = opset.version();
  return result;
}

Json DescribeG2p(const std::string& file, int) {
  const g2p::Model model = g2p::Model::Load(file);
  Json result = {{"kind", "model of pronunciations (grapheme to phoneme)"},
                 {"letters", fmt::format("{}", fmt::join(model.letters(), " "))},
                 {"phones", fmt::format("{}", fmt::join(model.phones(), " "))},
                 {"units", model.units().size()},
                 {"n-grams", model.ngram().num_ngrams()}};
  result["learnt from"] = Json::parse(model.description());
  return result;
}

Json DescribeBundle(const std::string& place, int) {
  const pipeline::BundleParts parts = pipeline::OpenBundle(place);
  Json card = pipeline::ReadBundleCard(place);
  card["kind"] = fmt::format("recogniser ({})", card.value("kind", ""));
  const auto model = AcousticModel::Load(parts.model, {});
  if (!model->features().empty()) {
    const Config features = Config::Parse(model->features(), parts.model);
    card["sample_rate_hz"] = ReadOptions<feat::FrontEndOptions>(features).sample_rate_hz;
  }
  card["phones"] = model->hmm().phones().num_phones();
  card["graph"] = IsInParts(GraphDescription(parts.graph)) ? "on the fly" : "static";
  card["voice_activity"] = !parts.vad.empty();
  return card;
}

const InfoKind kSpeechKinds[] = {
    {"recogniser", pipeline::IsBundle, DescribeBundle},
    {"decoding graph", [](const fs::path& p) { return fs::exists(p / "graph.json"); }, DescribeGraph},
    {"model of pronunciations", g2p::IsModelFile, DescribeG2p},
    {"script of lattices", [](const fs::path& p) { return HasEnding(p, {".scp"}) && IsOfLattices(p); },
     DescribeLatticeScript},
    {"lattices",
     [](const fs::path& p) {
       return HasEnding(p, {"lattices.gz", ".lat", ".lat.gz"}) || IsOfLattices(p);
     },
     DescribeLattices},
    {"language model",
     [](const fs::path& p) {
       return HasEnding(p, {".arpa", ".arpa.gz"});
     },
     DescribeArpa},
    {"transducer", [](const fs::path& p) { return HasEnding(p, {".fst"}); }, DescribeFst},
    {"ONNX", [](const fs::path& p) { return HasEnding(p, {".onnx"}); }, DescribeOnnx},
    {"audio", [](const fs::path& p) { return fs::is_regular_file(p) && data::IsReadableAudioName(p); }, DescribeAudio},
};

}  // namespace

std::span<const InfoKind> SpeechKinds() { return kSpeechKinds; }

bool IsOfLattices(const fs::path& path) {
  return HasName(path, {"lattices.ark", "lattices.scp"}) && fs::exists(path.parent_path() / "lattices.json");
}

bool HasEnding(const fs::path& path, std::initializer_list<std::string_view> endings) {
  const std::string name = path.filename().string();
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

bool HasName(const fs::path& path, std::initializer_list<std::string_view> names) {
  const std::string name = path.filename().string();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace antiphon::app
