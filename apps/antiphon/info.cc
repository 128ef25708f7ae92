// antiphon info PLACE: tries the kinds below in their order; each says whether the place looks like one of its own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "command.h"
#include "data/archive.h"
#include "data/data_dir.h"
#include "data/frame_store.h"
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
  if (reader.MetadataOr("format", "") == "antiphon-model") result["network"] = DescribeNetwork(nn::Model::Load(file));
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
  if (const std::string what = WhatIsNotFinite(reader); !what.empty()) result["not finite"] = what;
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

const InfoKind kKinds[] = {
    {"frame store", [](const fs::path& p) { return data::IsRemote(p.native()) || fs::exists(p / "store.json"); },
     DescribeFrameStore},
    {"data directory", [](const fs::path& p) { return fs::exists(p / "wav.scp"); }, DescribeDataDir},
    {"tensors", [](const fs::path& p) { return HasEnding(p, {".safetensors"}); }, DescribeTensors},
    {"table",
     [](const fs::path& p) {
       return HasEnding(p, {".ark", ".scp", ".ark.gz"}) && !HasName(p, {"wav.scp"}) && !IsOfLattices(p);
     },
     DescribeTable},
};

void PrintLines(const Json& json, const std::string& indent, CommandContext& context) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      context.Print("{}{}", indent, key);
      PrintLines(value, indent + "  ", context);
    } else {
      context.Print("{}{:<{}} {}", indent, key, 24 - indent.size(),
                    value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

void Info(const InfoOptions& options, CommandContext& context) {
  if (!data::IsRemote(options.file) && !fs::exists(options.file)) Throw<IoError>("'{}' does not exist", options.file);
  std::string known;
  for (const std::span<const InfoKind> kinds : {std::span<const InfoKind>(kKinds), SpeechKinds(), TextKinds()}) {
    for (const InfoKind& kind : kinds) {
      known += (known.empty() ? "" : ", ") + std::string(kind.name);
      if (!kind.matches(options.file)) continue;
      const Json result = kind.describe(options.file, options.entries);
      PrintLines(result, "", context);
      context.SetResult(result.dump(2, ' ', false, Json::error_handler_t::replace));
      return;
    }
  }
  Throw<InputError>("'{}' is none of the kinds that info knows by name: {}", options.file, known);
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
