// Kinds of antiphon info: words and lists; results, records and configuration; folders that a command leaves.
#include <algorithm>
#include <fstream>
#include <set>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "chain/chain_data.h"
#include "data/data_dir.h"
#include "data/file_checksums.h"
#include "data/script.h"
#include "data/text_grid.h"
#include "data/text_table.h"
#include "data/transcript_table.h"
#include "hmm/lexicon.h"
#include "info_kinds.h"
#include "parallel/arrival_log.h"
#include "report/metrics.h"
#include "score/transcript.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kArrivalMark = "arrivals";  // parallel/arrival_log.h
constexpr std::string_view kTargetsMark = "ANTSOFT1";  // train/soft_targets.cc

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

// Transcripts as antiphon prepare takes them, or what align says of each utterance.
Json DescribeRows(const std::string& file, int) {
  const std::string text = ReadFile(file);
  const bool tabs = HasEnding(file, {".tsv"}) || text.substr(0, text.find('\n')).find('\t') != std::string::npos;
  const auto rows = data::ParseSeparatedValues(text, tabs ? '\t' : ',', !tabs, file);
  size_t columns = 0;
  for (const data::TableRow& row : rows) columns = std::max(columns, row.fields.size());
  return {{"kind", "table of rows"}, {"rows", rows.size()}, {"columns", columns}};
}

Json DescribePlain(const std::string& file, int) {
  const std::string text = ReadFile(file);
  return {{"kind", "plain text"}, {"lines", std::count(text.begin(), text.end(), '\n')}, {"bytes", text.size()}};
}

// A cue has one line of times.
Json DescribeSubtitles(const std::string& file, int) {
  const std::string text = ReadFile(file);
  const bool web = HasEnding(file, {".vtt"});
  if (web && !text.starts_with("WEBVTT")) Throw<InputError>("'{}' does not begin with WEBVTT", file);
  int64_t cues = 0;
  for (size_t at = text.find(" --> "); at != std::string::npos; at = text.find(" --> ", at + 1)) ++cues;
  return {{"kind", web ? "subtitles (WebVTT)" : "subtitles (SubRip)"}, {"cues", cues}, {"bytes", text.size()}};
}

Json DescribeTextGrid(const std::string& file, int) {
  Json result = {{"kind", "labelled intervals (TextGrid)"}};
  for (const data::IntervalTier& tier : data::ReadTextGrid(file)) {
    const auto labelled = std::count_if(tier.intervals.begin(), tier.intervals.end(),
                                        [](const data::LabelledInterval& interval) { return !interval.label.empty(); });
    result["labels by tier"][tier.name] = labelled;
    if (!tier.intervals.empty()) result["seconds"] = fmt::format("{:.2f}", tier.intervals.back().end_s);
  }
  return result;
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

Json DescribeArrivals(const std::string& file, int) {
  const parallel::ArrivalLog whole({}, file);  // or an error
  return {{"kind", "order of arrivals (a training's arrival-log)"},
          {"arrivals", (fs::file_size(file) - kArrivalMark.size()) / sizeof(parallel::Arrival)}};
}

// Files whose content only one program reads.
Json DescribeEvents(const std::string& file, int) {
  return {{"kind", "TensorBoard events"}, {"bytes", fs::file_size(file)}};
}
Json DescribeTargets(const std::string& file, int) {
  return {{"kind", "posteriors of a teacher (antiphon targets)"}, {"bytes", fs::file_size(file)}};
}

Json DescribeStorePart(const std::string& file, int) {
  return {{"kind", "part of a frame store"},
          {"bytes", fs::file_size(file)},
          {"the whole", fs::path(file).parent_path().string()}};
}
Json DescribeLock(const std::string&, int) {
  return {{"kind", "lock"}, {"held", "by the process that works in the folder, if there is one"}};
}
Json DescribeSetAside(const std::string& file, int) {
  const std::string text = ReadFile(file);
  return {{"kind", "set aside: not what a run that went on remembered of it"},
          {"lines", std::count(text.begin(), text.end(), '\n')},
          {"bytes", text.size()}};
}

// Of files that may have any name.
bool BeginsWith(const fs::path& path, std::string_view mark) {
  if (!fs::is_regular_file(path)) return false;
  std::string begin(mark.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == mark;
}

// The beginning has no byte that text does without.
bool IsText(const fs::path& path) {
  constexpr size_t kLooked = 4096;
  if (!fs::is_regular_file(path)) return false;
  std::string begin(kLooked, '\0');
  std::ifstream stream(path, std::ios::binary);
  begin.resize(static_cast<size_t>(stream.read(begin.data(), kLooked).gcount()));
  return std::none_of(begin.begin(), begin.end(),
                      [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\t' && c != '\r'; });
}

// Folders that a command leaves, told by what lies in them.

bool HoldsAll(const fs::path& folder, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return fs::exists(folder / name); });
}

Json DescribeChain(const std::string& folder, int) {
  const chain::ChainData data = chain::ChainData::Load(folder);
  return {{"kind", "states, denominator and references of chain training (antiphon chain)"},
          {"utterances", data.references.size()},
          {"frames per output", data.step},
          {"pdf-ids", data.model.num_pdfs()},
          {"states of the denominator", data.denominator.states().size()},
          {"arcs of the denominator", data.denominator.arcs().size()}};
}

Json DescribeLatticeFolder(const std::string& folder, int) {
  const fs::path path(folder);
  const auto seal = nlohmann::json::parse(ReadFile(path / "lattices.json"), nullptr, false);
  Json result = {{"kind", "lattices for sequence training (antiphon lattices)"},
                 {"utterances", data::ReadScript(path / "lattices.scp").size()},
                 {"checksum", "right"}};
  const auto sums = seal.is_object() ? seal.value("checksums", nlohmann::json::object()) : nlohmann::json::object();
  for (const char* name : {"lattices.ark", "lattices.scp", "ali.ark", "ali.scp"}) {
    if (!data::IsAsWritten(path, name, sums))
      result["checksum"] = fmt::format("wrong: {} was changed or cut short", name);
  }
  return result;
}

Json DescribeAlignment(const std::string& folder, int) {
  const fs::path path(folder);
  for (const char* name : {"ali.scp", "pdf.scp"}) data::RequireTableAsWritten((path / name).string());
  return {{"kind", "alignment (antiphon align)"},
          {"utterances", data::ReadScript(path / "ali.scp").size()},
          {"model", fs::exists(path / "model.safetensors") ? "there" : "none in the folder"},
          {"speakers' transforms", fs::exists(path / "fmllr.scp") ? "there" : "none"}};
}

Json DescribeRecognised(const std::string& folder, int) {
  const fs::path path(folder);
  Json result = {{"kind", "recognised speech (antiphon decode)"},
                 {"utterances", report::ReadMetrics((path / "results.jsonl").string()).size()}};
  if (!fs::exists(path / "summary.json")) return result;
  const auto summary = nlohmann::json::parse(ReadFile(path / "summary.json"), nullptr, false);
  if (!summary.is_object()) return result;
  for (const char* key : {"speech_seconds", "real_time_factor"}) {
    if (summary.contains(key)) result[key] = summary[key];
  }
  if (summary.contains("score")) result["error rate"] = summary["score"].value("error_rate", nlohmann::json());
  return result;
}

Json DescribePronunciations(const std::string& folder, int) {
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(fs::path(folder) / "lexiconp.txt");
  return {{"kind", "how words are said, and where pauses stand (antiphon pronunciations)"},
          {"words", lexicon.num_words()},
          {"pronunciations", lexicon.entries().size()}};
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
                          "utt2zeros", "utt2parts", "audio_files", "words.txt", "failed.txt", "nbest.txt", "written"});
     },
     DescribeList},
    {"table of rows",
     [](const fs::path& p) {
       return HasEnding(p, {".csv", ".tsv"});
     },
     DescribeRows},
    {"records", [](const fs::path& p) { return HasEnding(p, {".jsonl"}); }, DescribeRecords},
    {"JSON", [](const fs::path& p) { return HasEnding(p, {".json"}); }, DescribeJson},
    {"configuration", [](const fs::path& p) { return HasEnding(p, {".toml"}); }, DescribeConfig},
    {"page", [](const fs::path& p) { return HasEnding(p, {".html"}); }, DescribePage},
    {"subtitles",
     [](const fs::path& p) {
       return HasEnding(p, {".srt", ".vtt"});
     },
     DescribeSubtitles},
    {"TextGrid", [](const fs::path& p) { return HasEnding(p, {".TextGrid"}); }, DescribeTextGrid},
    {"targets", [](const fs::path& p) { return BeginsWith(p, kTargetsMark); }, DescribeTargets},
    {"arrival log", [](const fs::path& p) { return BeginsWith(p, kArrivalMark); }, DescribeArrivals},
    {"set aside", [](const fs::path& p) { return HasEnding(p, {".damaged"}); }, DescribeSetAside},
    {"lock", [](const fs::path& p) { return HasName(p, {"lock"}) || HasEnding(p, {".lock"}); }, DescribeLock},
    {"part of a frame store",
     [](const fs::path& p) {
       return HasEnding(p, {".frames"}) || (HasName(p, {"index.bin"}) && fs::exists(p.parent_path() / "store.json"));
     },
     DescribeStorePart},
    {"events", [](const fs::path& p) { return p.filename().string().starts_with("events.out.tfevents"); },
     DescribeEvents},
    {"chain folder", [](const fs::path& p) { return HoldsAll(p, {"chain.json"}); }, DescribeChain},
    {"folder of lattices", [](const fs::path& p) { return HoldsAll(p, {"lattices.json"}); }, DescribeLatticeFolder},
    {"alignment",
     [](const fs::path& p) {
       return HoldsAll(p, {"ali.scp", "pdf.scp"});
     },
     DescribeAlignment},
    {"recognised speech",
     [](const fs::path& p) {
       return HoldsAll(p, {"results.jsonl", "text"});
     },
     DescribeRecognised},
    {"pronunciations",
     [](const fs::path& p) {
       return HoldsAll(p, {"silprob.txt", "lexiconp.txt"});
     },
     DescribePronunciations},
    {"plain text", [](const fs::path& p) { return HasEnding(p, {".txt"}) || IsText(p); }, DescribePlain},
};

}  // namespace

std::span<const InfoKind> TextKinds() { return kTextKinds; }

}  // namespace antiphon::app
