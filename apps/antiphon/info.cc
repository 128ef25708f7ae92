// antiphon info PLACE: tries the kinds below in their order; each says whether the place looks like one of its own. A
// folder of no kind is told by what lies in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/config.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/printed_json.h"
#include "command.h"
#include "data/archive.h"
#include "data/data_dir.h"
#include "data/frame_store.h"
#include "data/script.h"
#include "hmm/hmm_model.h"
#include "info_kinds.h"
#include "math/finite_tensors.h"
#include "math/safetensors.h"
#include "nn/model.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct InfoOptions {
  std::string file;
  int entries = 10;
  template <class V>
  void Visit(V& v) {
    v("file", file,
      "any file or folder that the program writes or reads: model, table, frame store, data directory, graph, run, "
      "audio …");
    v("entries", entries, Range{0, 1e9}, "list at most so many tensors or table entries");
  }
};

void DescribeHmm(const std::string& text, Json& result) {
  const auto model = hmm::HmmModel::FromJson(text);
  result["hmm"] = {{"phones", model.phones().num_phones()},
                   {"context width", model.context_width()},
                   {"pdf-ids", model.num_pdfs()},
                   {"transition-ids", model.transitions().num_transition_ids()}};
}

// Layers in words, and the frames that an output needs.
Json DescribeNetwork(const nn::Model& model) {
  const nn::Network& network = model.network;
  std::vector<std::string> types;
  for (size_t i = 0; i < network.num_layers(); ++i) types.push_back(network.layer_type(i));
  const TimeContext needed = network.time_context();
  return {{"layers", fmt::format("{}", fmt::join(types, ", "))},
          {"parameters", network.num_parameters()},
          {"frames before", needed.left + model.left_context},
          {"frames after", needed.right + model.right_context},
          {"frames per output", needed.stride},
          {"carries a state", network.recurrent()}};
}

Json DescribeTensors(const std::string& file, int entries) {
  const SafetensorsReader reader(file);
  Json result = {{"kind", "tensors (safetensors)"}};
  const bool is_model = reader.MetadataOr("format", "") == "antiphon-model";
  if (is_model) result["network"] = DescribeNetwork(nn::Model::Load(file));
  for (const auto& [key, value] : reader.metadata()) {
    // What fits on a line is shown; descriptions of phones, trees and features are summed up.
    if (value.find("antiphon-hmm-") != std::string::npos) {
      WithContext([&, &text = value] { DescribeHmm(text, result); },
                  [&, &name = key] { return fmt::format("'{}', metadata '{}'", file, name); });
    } else {
      const bool short_text = value.size() <= 100 && value.find('\n') == std::string::npos;
      result["metadata"][key] = short_text ? value : fmt::format("({} characters)", value.size());
    }
  }
  result["checksum"] = reader.has_checksum() ? "right" : "none in the file";
  int64_t values = 0;
  Json tensors = Json::object();
  for (const std::string& name : reader.Names()) {
    const TensorView& tensor = reader.Tensor(name);
    values += static_cast<int64_t>(tensor.data.size() / TensorTypeBytes(tensor.type));
    if (static_cast<int>(tensors.size()) < entries) {
      tensors[name] = fmt::format("{} [{}]", TensorTypeName(tensor.type), fmt::join(tensor.shape, " x "));
    }
  }
  // A class without data has a prior of −∞.
  const std::string what = WhatIsNotFinite(reader, /*but_for=*/is_model ? "log_priors" : "");
  if (!what.empty()) result["not finite"] = what;
  result["tensors"] = reader.Names().size();
  result["values"] = values;
  result["first tensors"] = std::move(tensors);
  return result;
}

// Reads a whole table as values of T; nullopt if its first value is of another type.
template <class T, class Count>
std::optional<Json> TryTable(const std::string& table, std::string_view type, int entries, const Count& count) {
  data::SequentialReader<T> reader(table, {.require_finite = false});
  Json first = Json::object();
  int64_t num_entries = 0;
  int64_t rows = 0;
  std::string not_finite;  // the first entry that holds such a value
  try {
    if (!reader.Next()) return Json{{"kind", "empty table"}, {"entries", 0}};
  } catch (const InputError&) {
    return std::nullopt;
  }
  do {
    const auto [length, shape] = count(reader.value());
    if (num_entries < entries) first[reader.key()] = shape;
    rows += length;
    ++num_entries;
    if (not_finite.empty() && !std::all_of(reader.value().data(), reader.value().data() + reader.value().size(),
                                           [](const auto x) { return std::isfinite(static_cast<double>(x)); })) {
      not_finite = reader.Where();
    }
  } while (reader.Next());
  Json result = {{"kind", fmt::format("table of {}", type)}, {"entries", num_entries}, {"frames", rows}};
  if (!not_finite.empty()) result["not finite"] = not_finite;
  result["first entries"] = std::move(first);
  return result;
}

Json DescribeTable(const std::string& table, int entries) {
  const auto of_matrix = [](const Matrix& m) {
    return std::pair(m.rows(), fmt::format("{} x {}", m.rows(), m.cols()));
  };
  const auto of_vector = [](const auto& v) {
    return std::pair(static_cast<int64_t>(v.size()), fmt::format("{} values", v.size()));
  };
  if (auto json = TryTable<Matrix>(table, "matrices", entries, of_matrix)) return *json;
  if (auto json = TryTable<std::vector<int32_t>>(table, "integer vectors", entries, of_vector)) return *json;
  if (auto json = TryTable<std::vector<float>>(table, "vectors", entries, of_vector)) return *json;
  // None fits: say what is wrong with it as the most usual kind.
  data::SequentialReader<Matrix>(table).Next();
  Throw<InputError>("'{}' is a table of no known kind", table);
}

Json DescribeFrameStore(const std::string& folder, int) {
  data::FrameStoreAccess access;
  access.index_only = data::IsRemote(folder);
  const data::FrameStore store(folder, access);
  return {{"kind", "frame store"},
          {"features", store.live() != nullptr ? "made of recordings when they are read" : "stored"},
          {"utterances", store.utterances().size()},
          {"speakers", store.speakers().size()},
          {"frames", store.num_frames()},
          {"values per frame", store.feat_dim()},
          {"pdf-ids", store.num_pdfs()},
          {"fingerprint", fmt::format("{:016x}", store.fingerprint())}};
}

Json DescribeDataDir(const std::string& folder, int) {
  const auto dir = data::DataDir::Load(folder);
  double seconds = 0;
  int64_t known = 0;
  int64_t words = 0;
  for (const data::Utterance& utterance : dir.utterances()) {
    const double length = utterance.duration_s >= 0 ? utterance.duration_s : utterance.end_s - utterance.start_s;
    known += length > 0 ? 1 : 0;
    seconds += std::max(0.0, length);
    words += static_cast<int64_t>(utterance.words.size());
  }
  Json result = {{"kind", "data directory"},
                 {"recordings", dir.recordings().size()},
                 {"utterances", dir.utterances().size()},
                 {"speakers", dir.speakers().size()},
                 {"words", words}};
  if (known == static_cast<int64_t>(dir.utterances().size())) {
    result["hours"] = fmt::format("{:.3f}", seconds / 3600);
  } else {
    result["hours"] = fmt::format("unknown for {} utterances; see antiphon prepare",
                                  dir.utterances().size() - static_cast<size_t>(known));
  }
  return result;
}

// What antiphon features leaves, and decode where it made features itself.
Json DescribeFeatures(const std::string& folder, int) {
  const fs::path path(folder);
  Json result = {{"kind", "features (antiphon features)"}};
  if (fs::exists(path / "feats.scp")) result["utterances"] = data::ReadScript(path / "feats.scp").size();
  if (fs::exists(path / "long_feats.scp")) result["pieces"] = data::ReadScript(path / "long_feats.scp").size();
  result["normalisation"] = fs::exists(path / "cmvn.scp") ? "there" : "none in the folder";
  if (!fs::exists(path / "front_end.toml")) return result;
  const Config front_end = Config::Load(path / "front_end.toml");
  for (const char* key : {"kind", "sample-rate", "frame-shift-ms"}) {
    if (const auto value = front_end.AnyAsText(key)) result["front end"][key] = *value;
  }
  return result;
}

Json DescribeVectors(const std::string& folder, int) {
  const fs::path path(folder);
  const bool online = fs::exists(path / "ivectors.toml");
  return {{"kind", "speaker vectors (antiphon ivectors)"},
          {online ? "utterances" : "vectors", data::ReadScript(path / "ivectors.scp").size()},
          {"made", online ? "as the speech comes in" : "of all of a speaker or utterance"},
          {"extractor", fs::exists(path / "extractor.safetensors") ? "there" : "none in the folder"}};
}

Json ReadObject(const fs::path& file) {
  Json json = Json::parse(ReadFile(file), nullptr, false);
  if (!json.is_object()) Throw<InputError>("'{}' is no JSON object: cut short, or changed", file.string());
  return json;
}

std::vector<Json> ObjectsOf(const Json& json, const char* key) {
  std::vector<Json> objects;
  const Json list = json.value(key, Json::array());
  std::copy_if(list.begin(), list.end(), std::back_inserter(objects),
               [](const Json& entry) { return entry.is_object(); });
  return objects;
}

// Its runs are sorted, the best first.
Json DescribeSweep(const std::string& folder, int) {
  const std::vector<Json> runs = ObjectsOf(ReadObject(fs::path(folder) / "sweep.json"), "runs");
  Json result = {{"kind", "sweep of trainings (antiphon sweep)"}, {"runs", runs.size()}};
  std::map<std::string, int> by_state;
  for (const Json& run : runs) ++by_state[run.value("state", "")];
  result["by state"] = by_state;
  if (by_state.contains("finished")) {
    result["best run"] = runs[0].value("folder", "");
    result["its held-out loss"] = runs[0].value("held_out_loss", Json());
  }
  return result;
}

Json DescribeComparison(const std::string& folder, int) {
  Json result = {{"kind", "comparison of trainings (antiphon compare)"}};
  for (const Json& row : ObjectsOf(ReadObject(fs::path(folder) / "compare.json"), "rows")) {
    result["runs"][fmt::format("{} x {}", row.value("method", ""), row.value("workers", 0))] =
        row.value("runs", Json::array()).size();
  }
  return result;
}

Json DescribeAdaptation(const std::string& folder, int) {
  const Json adapted = ReadObject(fs::path(folder) / "adaptation.json");
  Json result = {{"kind", "adaptation of a model (antiphon adapt)"}};
  for (const char* key : {"accepted", "verdict", "model", "profile"}) {
    if (adapted.contains(key) && adapted[key] != "") result[key] = adapted[key];
  }
  return result;
}

Json DescribeCompression(const std::string& folder, int) {
  const Json compressed = ReadObject(fs::path(folder) / "compression.json");
  Json result = {{"kind", "compressed model (antiphon compress)"}};
  for (const char* stage : {"before", "compressed", "retrained"}) {
    if (compressed.contains(stage)) result[stage] = compressed[stage];
  }
  return result;
}

Json DescribeFolder(const std::string& folder, int entries);

// Named like the steps, they look like what these make.
Json DescribeRecordsOfSteps(const std::string& folder, int entries) {
  Json result = DescribeFolder(folder, entries);
  result["kind"] = "records of a recipe's steps (antiphon run)";
  return result;
}

const InfoKind kKinds[] = {
    {"records of steps", [](const fs::path& p) { return HasName(p, {".steps"}); }, DescribeRecordsOfSteps},
    {"frame store", [](const fs::path& p) { return data::IsRemote(p.native()) || fs::exists(p / "store.json"); },
     DescribeFrameStore},
    {"data directory", [](const fs::path& p) { return fs::exists(p / "wav.scp"); }, DescribeDataDir},
    {"features", [](const fs::path& p) { return fs::exists(p / "feats.scp") || fs::exists(p / "long_feats.scp"); },
     DescribeFeatures},
    {"speaker vectors", [](const fs::path& p) { return fs::exists(p / "ivectors.scp"); }, DescribeVectors},
    {"sweep", [](const fs::path& p) { return fs::exists(p / "sweep.json"); }, DescribeSweep},
    {"comparison", [](const fs::path& p) { return fs::exists(p / "compare.json"); }, DescribeComparison},
    {"adaptation", [](const fs::path& p) { return fs::exists(p / "adaptation.json"); }, DescribeAdaptation},
    {"compressed model", [](const fs::path& p) { return fs::exists(p / "compression.json"); }, DescribeCompression},
    {"tensors", [](const fs::path& p) { return HasEnding(p, {".safetensors"}); }, DescribeTensors},
    {"table",
     [](const fs::path& p) {
       return HasEnding(p, {".ark", ".scp", ".ark.gz"}) && !HasName(p, {"wav.scp"}) && !IsOfLattices(p);
     },
     DescribeTable},
};

template <class Use>
void ForEachKind(const Use& use) {
  for (const std::span<const InfoKind> kinds : {std::span<const InfoKind>(kKinds), SpeechKinds(), TextKinds()}) {
    for (const InfoKind& kind : kinds) use(kind);
  }
}

// The first that says so.
const InfoKind* KindOf(const fs::path& place) {
  const InfoKind* first = nullptr;
  ForEachKind([&](const InfoKind& kind) {
    if (first == nullptr && kind.matches(place)) first = &kind;
  });
  return first;
}

Json DescribeFolder(const std::string& folder, int entries) {
  std::error_code error;
  std::map<std::string, std::string> inside;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const InfoKind* const kind = KindOf(entry.path());
    const char* const other = entry.is_directory() ? "folder" : "of no known kind";
    inside[entry.path().filename().string()] = kind != nullptr ? kind->name : other;
  }
  if (error) ThrowIo("read", folder, error.value());
  Json first = Json::object();
  for (const auto& [name, kind] : inside) {
    if (static_cast<int>(first.size()) < entries) first[name] = kind;
  }
  return {{"kind", "folder"}, {"entries", inside.size()}, {"first entries", std::move(first)}};
}

// As a person reads it; --json has every digit.
std::string ShortText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  const auto number = value.get<double>();
  return std::abs(number) < 1e5 ? fmt::format("{:.5g}", number) : fmt::format("{:.0f}", number);
}

void PrintLine(const std::string& indent, const std::string& key, const std::string& text, CommandContext& context) {
  context.Print("{}{:<{}} {}", indent, key, 24 - indent.size(), text);
}

bool IsOfNamedObjects(const Json& json) {
  return json.is_array() && !json.empty() && std::ranges::all_of(json, [](const Json& element) {
           return element.is_object() && element.contains("name") && element["name"].is_string();
         });
}

std::string AllButName(const Json& object) {
  std::vector<std::string> all;
  for (const auto& [key, value] : object.items()) {
    if (key != "name") all.push_back(fmt::format("{} {}", key, ShortText(value)));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

void PrintLines(const Json& json, const std::string& indent, CommandContext& context) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      context.Print("{}{}", indent, key);
      PrintLines(value, indent + "  ", context);
    } else if (IsOfNamedObjects(value)) {
      context.Print("{}{}", indent, key);
      for (const Json& element : value) {
        PrintLine(indent + "  ", element["name"].get<std::string>(), AllButName(element), context);
      }
    } else {
      PrintLine(indent, key, ShortText(value), context);
    }
  }
}

void Info(const InfoOptions& options, CommandContext& context) {
  const bool remote = data::IsRemote(options.file);
  if (!remote && !fs::exists(options.file)) Throw<IoError>("'{}' does not exist", options.file);
  const InfoKind* const kind = KindOf(options.file);
  if (kind == nullptr && (remote || !fs::is_directory(options.file))) {
    std::vector<std::string> known;
    ForEachKind([&](const InfoKind& k) { known.emplace_back(k.name); });
    Throw<InputError>("'{}' is none of the kinds that info knows by name: {}", options.file, fmt::join(known, ", "));
  }
  const Json result = (kind != nullptr ? kind->describe : DescribeFolder)(options.file, options.entries);
  PrintLines(result, "", context);
  context.SetResult(PrintedJson(result, 2));
}

REGISTER_COMMAND(
    "info", InfoOptions, Info,
    {.summary = "what a file or folder holds",
     .description =
         "Models and other tensor files, Kaldi tables, frame stores, data directories, graphs, lattices, language "
         "models, models of pronunciations, lexica, transcripts, subtitles, TextGrids, runs, experiments, records, "
         "configuration, audio, and the folders that chain, align, decode, lattices and pronunciations leave.",
     .example = "antiphon info exp/digits/model.safetensors\nantiphon info data/train/feats.scp --json",
     .positionals = {"file"},
     .required = {"file"}});

}  // namespace
}  // namespace antiphon::app
