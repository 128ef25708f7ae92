// Kinds of antiphon info: words and lists; results, records and configuration.
#include <algorithm>
#include <fstream>
#include <set>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "data/data_dir.h"
#include "data/text_table.h"
#include "data/transcript_table.h"
#include "hmm/lexicon.h"
#include "info_kinds.h"
#include "report/metrics.h"
#include "score/transcript.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json DescribeTranscripts(const std::string& file, int) {
  const score::Transcripts text = score::ReadTranscripts(file);
  int64_t running = 0;
  std::set<std::string> vocabulary;
  for (const auto& [utt_id, words] : text.words) {
    running += static_cast<int64_t>(words.size());
    vocabulary.insert(words.begin(), words.end());
  }
  return {{"kind", text.format == score::TranscriptFormat::kCtm ? "words with times (CTM)" : "transcripts"},
          {"utterances", text.words.size()},
          {"running words", running},
          {"vocabulary", vocabulary.size()}};
}

Json DescribeLexicon(const std::string& file, int) {
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(file);
  return {{"kind", "lexicon"},
          {"words", lexicon.num_words()},
          {"pronunciations", lexicon.entries().size()},
          {"phones", lexicon.phones().num_phones()}};
}

Json DescribeList(const std::string& file, int entries) {
  std::vector<data::DataProblem> problems;
  const std::vector<data::TextLine> lines = data::ReadTextTable(file, problems);
  for (const data::DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
  }
  Json first = Json::object();
  for (const data::TextLine& line : lines) {
    if (static_cast<int>(first.size()) == entries) break;
    first[line.key] = line.rest;
  }
  return {{"kind", "list by key"}, {"lines", lines.size()}, {"first lines", std::move(first)}};
}

// Transcripts as antiphon prepare takes them.
Json DescribeRows(const std::string& file, int) {
  const std::string text = ReadFile(file);
  const bool tabs = HasEnding(file, {".tsv"}) || text.substr(0, text.find('\n')).find('\t') != std::string::npos;
  const auto rows = data::ParseSeparatedValues(text, tabs ? '\t' : ',', !tabs, file);
  size_t columns = 0;
  for (const data::TableRow& row : rows) columns = std::max(columns, row.fields.size());
  return {{"kind", "table of transcripts"}, {"rows", rows.size()}, {"columns", columns}};
}

Json DescribePlain(const std::string& file, int) {
  const std::string text = ReadFile(file);
  return {{"kind", "plain text"}, {"lines", std::count(text.begin(), text.end(), '\n')}, {"bytes", text.size()}};
}

// What is short enough for a line.
Json Shown(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("({} elements)", value.size());
  if (value.is_object()) return fmt::format("({} keys)", value.size());
  const bool long_text = value.is_string() && value.get_ref<const std::string&>().size() > 100;
  return long_text ? Json(fmt::format("({} characters)", value.get_ref<const std::string&>().size())) : Json(value);
}

Json DescribeJson(const std::string& file, int entries) {
  const auto json = nlohmann::json::parse(ReadFile(file), nullptr, false);
  if (json.is_discarded()) Throw<InputError>("'{}' is no JSON: cut short, or changed", file);
  Json result = {{"kind", "JSON"}};
  if (!json.is_object()) {
    result["content"] = Shown(json);
    return result;
  }
  for (const auto& [key, value] : json.items()) {
    if (static_cast<int>(result["keys"].size()) == entries) break;
    result["keys"][key] = Shown(value);
  }
  return result;
}

// Metrics, results by utterance.
Json DescribeRecords(const std::string& file, int) {
  const std::vector<report::MetricsRecord> records = report::ReadMetrics(file);
  std::map<std::string, int64_t> kinds;
  for (const report::MetricsRecord& record : records) ++kinds[record.Text("kind")];
  Json result = {{"kind", "records (JSON lines)"}, {"records", records.size()}};
  for (const auto& [kind, count] : kinds) {
    if (!kind.empty()) result["of kind"][kind] = count;
  }
  if (!records.empty()) {
    const nlohmann::json last = nlohmann::json::parse(records.back().ToJson());
    for (const auto& [name, value] : last.items()) result["last record"][name] = Shown(value);
  }
  return result;
}

Json DescribeConfig(const std::string& file, int entries) {
  const Config config = Config::Load(file);
  Json result = {{"kind", config.Has("step") || config.Has("include") ? "recipe" : "configuration"}};
  for (const std::string& key : config.Keys()) {
    if (static_cast<int>(result["keys"].size()) == entries) break;
    result["keys"][key] = config.IsTable(key) ? "(table)" : config.AnyAsText(key).value_or("");
  }
  return result;
}

Json DescribeRun(const std::string& folder, int entries) {
  const fs::path path(folder);
  Json result = {{"kind", "training run"}};
  result["model"] = fs::exists(path / "model.safetensors") ? "there" : "not yet: training was not finished";
  if (fs::exists(path / "metrics.jsonl")) {
    result["metrics.jsonl"] = DescribeRecords((path / "metrics.jsonl").string(), entries);
  }
  int64_t checkpoints = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path / "checkpoint", none)) {
    checkpoints += HasEnding(entry.path(), {".safetensors"}) ? 1 : 0;
  }
  result["checkpoint files"] = checkpoints;
  return result;
}

Json DescribeExperiment(const std::string& folder, int) {
  Json result = {{"kind", "experiment of a recipe"}};
  std::set<fs::path> records;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / ".steps")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") && !name.ends_with(".begun.json") && name != "settings.json")
      records.insert(entry.path());
  }
  for (const fs::path& record : records) {
    const auto json = nlohmann::json::parse(ReadFile(record), nullptr, false);
    result["steps"][record.stem().string()] =
        json.is_object() ? fmt::format("took {:.1f} s", json.value("seconds", 0.0)) : std::string("record unreadable");
  }
  return result;
}

Json DescribePage(const std::string& file, int) {
  const std::string text = ReadFile(file);
  const size_t begin = text.find("<title>"), end = text.find("</title>");
  Json result = {{"kind", "page for a browser"}, {"bytes", text.size()}};
  if (begin != std::string::npos && end != std::string::npos && end > begin)
    result["title"] = text.substr(begin + 7, end - begin - 7);
  return result;
}

// Files whose content only one program reads: TensorBoard's events, a teacher's posteriors of a store.
Json DescribeOpaque(const std::string& file, int) {
  return {{"kind", HasEnding(file, {".bin"}) ? "posteriors of a teacher (antiphon targets)" : "TensorBoard events"},
          {"bytes", fs::file_size(file)}};
}

const InfoKind kTextKinds[] = {
    {"experiment", [](const fs::path& p) { return fs::is_directory(p / ".steps"); }, DescribeExperiment},
    {"training run", [](const fs::path& p) { return fs::exists(p / "config.toml") && fs::is_directory(p); },
     DescribeRun},
    {"transcripts", [](const fs::path& p) { return HasName(p, {"text"}) || HasEnding(p, {".ctm"}); },
     DescribeTranscripts},
    {"lexicon",
     [](const fs::path& p) {
       return HasEnding(p, {"lexicon.txt", "lexiconp.txt", ".lexicon", ".dict"});
     },
     DescribeLexicon},
    {"list",
     [](const fs::path& p) {
       return HasName(p, {"wav.scp", "segments", "utt2spk", "spk2utt", "spk2gender", "utt2dur", "utt2noise",
                          "utt2zeros", "utt2parts", "words.txt", "failed.txt", "nbest.txt", "written"});
     },
     DescribeList},
    {"transcript table",
     [](const fs::path& p) {
       return HasEnding(p, {".csv", ".tsv"});
     },
     DescribeRows},
    {"plain text", [](const fs::path& p) { return HasEnding(p, {".txt"}); }, DescribePlain},
    {"records", [](const fs::path& p) { return HasEnding(p, {".jsonl"}); }, DescribeRecords},
    {"JSON", [](const fs::path& p) { return HasEnding(p, {".json"}); }, DescribeJson},
    {"configuration", [](const fs::path& p) { return HasEnding(p, {".toml"}); }, DescribeConfig},
    {"page", [](const fs::path& p) { return HasEnding(p, {".html"}); }, DescribePage},
    {"targets",
     [](const fs::path& p) {
       return HasName(p, {"targets.bin"}) || p.filename().string().starts_with("events.out.tfevents");
     },
     DescribeOpaque},
};

}  // namespace

std::span<const InfoKind> TextKinds() { return kTextKinds; }

}  // namespace antiphon::app
