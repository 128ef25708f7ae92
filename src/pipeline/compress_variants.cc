#include "pipeline/compress_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/suggest.h"
#include "base/toml_text.h"
#include "compress/network_parts.h"
#include "pipeline/compress.h"
#include "pipeline/model_measure.h"
#include "report/text_table.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Variant {
  std::string name;
  std::vector<std::string> settings;  // of `antiphon compress`
  std::vector<std::string> scoring;   // nnet.…
  std::string from;
  std::string method;
};

// As outcome.json and variants.json hold them.
json VariantJson(const VariantMeasures& measures) {
  json all = {{"frame_accuracy", measures.frame_accuracy}};
  if (!measures.words) return all;
  all["word_error_rate"] = measures.words->rate;
  all["word_errors"] = measures.words->errors;
  all["words"] = measures.words->words;
  return all;
}

VariantMeasures MeasuresFrom(const json& stored) {
  VariantMeasures measures{stored.at("frame_accuracy"), {}};
  if (stored.contains("words")) {
    measures.words = {stored.at("word_error_rate"), stored.at("word_errors"), stored.at("words")};
  }
  return measures;
}

json VariantJson(const VariantOutcome& outcome) {
  json all = {{"model", outcome.model}, {"parameters", outcome.parameters}, {"result", VariantJson(outcome.result)}};
  if (!outcome.compressed) return all;
  all["compressed"] = VariantJson(*outcome.compressed);
  json& layers = all["layers"] = json::array();
  for (const compress::Change& c : outcome.layers) layers.push_back({{"layer", c.layer}, {"what", c.what}});
  return all;
}

VariantOutcome OutcomeFrom(const json& stored) {
  VariantOutcome outcome{stored.at("model"), stored.at("parameters"), {}, {}, MeasuresFrom(stored.at("result"))};
  if (!stored.contains("compressed")) return outcome;
  outcome.compressed = MeasuresFrom(stored.at("compressed"));
  for (const json& c : stored.at("layers")) outcome.layers.push_back({c.at("layer"), c.at("what")});
  return outcome;
}

json VariantJson(const std::vector<VariantReport>& variants) {
  json all = json::array();
  for (const VariantReport& v : variants) {
    const auto& compressed = v.outcome.compressed;
    all.push_back({{"name", v.name},
                   {"frames_per_second", v.frames_per_second},
                   {"bytes", v.bytes},
                   {"parameters", v.outcome.parameters},
                   {"compressed", compressed ? VariantJson(*compressed) : json()},
                   {"result", VariantJson(v.outcome.result)}});
  }
  return {{"variants", all}};
}

std::string After(const std::string& setting, std::string_view key) {
  return setting.starts_with(key) ? setting.substr(key.size()) : "";
}

// The same variants, each behind the one that it starts from.
std::vector<Variant> InOrder(std::vector<Variant> variants, const Config& table) {
  std::vector<Variant> ordered;
  const auto is_ready = [&](const Variant& v) {
    return v.from.empty() ||
           std::any_of(ordered.begin(), ordered.end(), [&](const Variant& o) { return o.name == v.from; });
  };
  while (!variants.empty()) {
    const auto next = std::find_if(variants.begin(), variants.end(), is_ready);
    if (next == variants.end()) {
      Throw<UsageError>("{}: '{}' starts from itself by way of '{}'", table.Where(variants[0].name), variants[0].name,
                        variants[0].from);
    }
    ordered.push_back(std::move(*next));
    variants.erase(next);
  }
  return ordered;
}

std::vector<Variant> ReadVariants(const Config& table) {
  std::vector<Variant> variants;
  const std::vector<std::string> names = table.Keys();
  for (const std::string& name : names) {
    Variant v{.name = name, .settings = {}, .scoring = {}, .from = {}, .method = {}};
    const auto settings = table.Texts(name);
    for (const std::string& setting : *settings) {
      if (setting.starts_with("from=")) {
        v.from = After(setting, "from=");
      } else if (setting.starts_with("nnet.")) {
        v.scoring.push_back(setting);
      } else {
        if (setting.starts_with("method=")) v.method = After(setting, "method=");
        v.settings.push_back(setting);
      }
    }
    if (!v.from.empty() && std::find(names.begin(), names.end(), v.from) == names.end()) {
      throw UsageError(table.Where(name) + ": " + UnknownNameMessage("variant", v.from, names));
    }
    if (v.method.empty() && !v.settings.empty()) {
      Throw<UsageError>("{}: '{}' has no effect without method=…", table.Where(name), v.settings.front());
    }
    variants.push_back(std::move(v));
  }
  return InOrder(std::move(variants), table);
}

class Runner {
 public:
  Runner(const CompressRequest& request, const Config& config, const StageHost& host)
      : Runner(request, config, host, OpenStore(request.store, request.compression.train.data.cache),
               OpenStore(request.held_out_store, request.compression.train.data.cache)) {}

  VariantReport Run(const Variant& v) {
    const fs::path folder = fs::path(request_.out) / v.name;
    MakeFolder(folder);
    const fs::path before =
        v.from.empty() ? fs::path(request_.model) : fs::path(request_.out) / v.from / "model.safetensors";
    const Config config = CompressConfig(v, before, folder);
    Config decode = Config::Parse(config_.Table("decode").ToToml(), "decode");
    for (const std::string& setting : v.scoring) decode.SetFromFlag(setting);
    const json key = {{"model", ModelKey(before)},
                      {"common", common_},
                      {"method", v.method.empty() ? "" : config.Table(v.method).ToToml()},
                      {"settings", v.settings},
                      {"decode", decode.ToToml()}};
    const fs::path file = folder / "outcome.json";
    const json stored = fs::exists(file) ? json::parse(ReadFile(file), nullptr, false) : json();
    if (stored.is_object() && stored.value("key", json()) == key) {
      return MeasureSpeed(v, OutcomeFrom(stored.at("outcome")), decode);
    }
    VariantOutcome outcome = Make(v, before, folder, config, decode);
    WriteFileAtomically(file, json({{"key", key}, {"outcome", VariantJson(outcome)}}).dump(1) + "\n");
    return MeasureSpeed(v, std::move(outcome), decode);
  }

 private:
  using Store = std::shared_ptr<const data::FrameStore>;
  Runner(const CompressRequest& request, const Config& config, const StageHost& host, const Store& store,
         const Store& held_out_store)
      : request_(request),
        config_(config),
        host_(host),
        full_(request.compression, std::make_shared<const nn::Model>(nn::Model::Load(request.model)), store,
              held_out_store, host.seed),
        common_(fmt::format("{}{}{}\n{}\n{}\n{}\n", OptionsToConfig(request.compression).ToToml(),
                            request.optimizer.ToToml(), StoreKey(store), StoreKey(held_out_store), host.seed,
                            request.compression.own_held_out)),
        decodes_(config.Has("decode")) {}

  Config CompressConfig(const Variant& v, const fs::path& before, const fs::path& folder) const {
    Config config = Config::Parse(config_.ToToml(), "variant " + v.name);
    for (const std::string& setting : v.settings) config.SetFromFlag(setting);
    config.Set("model", TomlString(before.string()));
    config.Set("out", TomlString(folder.string()));
    config.Set("threads", std::to_string(host_.threads));
    return config;
  }

  static std::string ModelKey(const fs::path& file) {
    return fmt::format("{:016x}", nn::Model::Load(file).network.Hash());
  }

  VariantOutcome Make(const Variant& v, const fs::path& before, const fs::path& folder, const Config& config,
                      const Config& decode) {
    host_.say(v.name);
    if (v.method.empty()) {
      const int skip = static_cast<int>(decode.Int("nnet.frame-skip").value_or(1));
      const train::ModelMeasures m = full_.Measure(nn::Model::Load(before), skip);
      return {before.string(), m.parameters, {}, {}, Measures(m.frame_accuracy, before, folder / "decode", decode)};
    }
    const train::CompressionResult made = Compressed(config);
    const fs::path model = folder / "model.safetensors";
    return {model.string(), made.retrained.parameters, made.changes,
            Measures(made.compressed.frame_accuracy, folder / "compressed.safetensors", folder / "decode-compressed",
                     decode),
            Measures(made.retrained.frame_accuracy, model, folder / "decode", decode)};
  }

  train::CompressionResult Compressed(const Config& config) const {
    std::vector<std::string> others = CompressTables();
    others.insert(others.end(), {"threads", "seed", "json", "device"});
    auto request = ReadOptions<CompressRequest>(config, std::move(others));
    TakeTables(config, request);
    StageHost host = host_;
    if (const auto seed = config.Int("seed")) host.seed = static_cast<uint64_t>(*seed);
    train::CompressionResult result = Compress(request, host);
    for (const std::string& sentence : Sentences(request, result)) host_.say(sentence);
    return result;
  }

  VariantMeasures Measures(double frame_accuracy, const fs::path& file, const fs::path& out,
                           const Config& decode) const {
    if (!decodes_) return {frame_accuracy, {}};
    return {frame_accuracy, MeasureWordErrors(decode, file, nn::Model::Load(file), out, host_)};
  }

  VariantReport MeasureSpeed(const Variant& v, VariantOutcome outcome, const Config& decode) const {
    const nn::Model model = nn::Model::Load(outcome.model);
    const ScoringCost cost =
        MeasureScoring(model, request_.plan.batch, decode.Text("nnet.precision").value_or(""), host_.threads);
    const auto skip = static_cast<double>(decode.Int("nnet.frame-skip").value_or(1));
    return {v.name, cost.frames_per_second * skip, compress::SizeOf(model.network).bytes, std::move(outcome)};
  }

  const CompressRequest& request_;
  const Config& config_;
  const StageHost& host_;
  const train::CompressionRun full_;  // measures the frame accuracy of the model as it is
  const std::string common_;  // what all variants are told alike, and learn from: they are run again if it changes
  bool decodes_;
};

std::string FrameAccuracy(const std::optional<VariantMeasures>& m) {
  return m ? fmt::format("{:.2f} %", 100 * m->frame_accuracy) : "–";
}

std::string WordErrorRate(const std::optional<VariantMeasures>& m) {
  return m && m->words ? fmt::format("{:.2f} %", 100 * m->words->rate) : "–";
}

std::vector<std::vector<std::string>> Rows(const std::vector<VariantReport>& variants, bool decodes) {
  std::vector<std::vector<std::string>> rows = {
      {"variant", "file", "of full", "frames/s", "× full", "frame accuracy after the method", "retrained"}};
  if (decodes) rows[0].insert(rows[0].end(), {"WER after the method", "retrained"});
  for (const VariantReport& v : variants) {
    const double share = 100.0 * static_cast<double>(v.bytes) / static_cast<double>(variants[0].bytes);
    rows.push_back({v.name, fmt::format("{:.0f} kB", 1e-3 * static_cast<double>(v.bytes)),
                    fmt::format("{:.0f} %", share), fmt::format("{:.0f}", v.frames_per_second),
                    fmt::format("{:.1f}", v.frames_per_second / variants[0].frames_per_second),
                    FrameAccuracy(v.outcome.compressed), FrameAccuracy(v.outcome.result)});
    if (!decodes) continue;
    rows.back().push_back(WordErrorRate(v.outcome.compressed));
    rows.back().push_back(WordErrorRate(v.outcome.result));
  }
  return rows;
}

std::string Markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i > 0) continue;
    for (size_t c = 0; c < rows[0].size(); ++c) text += "|---";
    text += "|\n";
  }
  return text;
}

}  // namespace

std::string ToJson(const std::vector<VariantReport>& variants) { return VariantJson(variants).dump(); }

std::vector<VariantReport> CompareVariants(const CompressRequest& request, const Config& config,
                                           const StageHost& host) {
  const fs::path out = request.out;
  std::vector<Variant> variants = ReadVariants(config.Table("variants"));
  variants.insert(variants.begin(), {.name = "full", .settings = {}, .scoring = {}, .from = {}, .method = {}});
  Runner runner(request, config, host);
  std::vector<VariantReport> reports;
  std::vector<std::vector<std::string>> rows;
  for (const Variant& v : variants) {
    reports.push_back(WithContext([&] { return runner.Run(v); }, [&] { return fmt::format("variant '{}'", v.name); }));
    // Kept up to date, so that a run which is cut short has shown what it found.
    rows = Rows(reports, config.Has("decode"));
    WriteFileAtomically(out / "variants.json", VariantJson(reports).dump(1) + "\n");
    WriteFileAtomically(out / "variants.md", Markdown(rows));
  }
  for (const std::string& line : report::TextTable(rows)) host.say(line);
  host.say(fmt::format("table: {}", (out / "variants.md").string()));
  return reports;
}

}  // namespace antiphon::pipeline
