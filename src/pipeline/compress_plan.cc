#include "pipeline/compress_plan.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "pipeline/compress_request.h"
#include "pipeline/model_measure.h"
#include "report/html.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;
using compress::Move;
using compress::Outcome;

double ParsePercent(const std::string& text, const char* what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !(value >= 0 && std::isfinite(value)) || (rest != "%" && !rest.empty())) {
    Throw<UsageError>("{} is '{}', expected a share such as '1%' or 0.01", what, text);
  }
  return rest == "%" ? value / 100 : value;
}

nlohmann::json OutcomeJson(const Outcome& o) {
  return {{"error", o.error},
          {"seconds_per_frame", o.seconds_per_frame},
          {"bytes", o.bytes},
          {"stream_bytes", o.stream_bytes}};
}

Outcome FromJson(const nlohmann::json& json) {
  return {json.at("error"), json.at("seconds_per_frame"), json.at("bytes"), json.at("stream_bytes")};
}

class RealWorkshop : public compress::Workshop {
 public:
  RealWorkshop(const PlanRequest& request, const StageHost& host) : request_(request), host_(host) {}

  fs::path Folder(const std::vector<Move>& moves) const {
    if (moves.empty()) return request_.folder / "full";
    const std::string text = Text(moves);
    return request_.folder / fmt::format("try-{}-{:016x}", moves.size(), Checksum(std::as_bytes(std::span(text))));
  }
  fs::path ModelFile(const std::vector<Move>& moves) const {
    return moves.empty() ? fs::path(request_.model_file) : Folder(moves) / "model.safetensors";
  }

  Outcome Measure(const std::vector<Move>& moves) override {
    const fs::path folder = Folder(moves);
    const nlohmann::json key = {{"moves", Text(moves)},
                                {"model", fmt::format("{:016x}", request_.model->network.Hash())},
                                {"options", OptionsToConfig(request_.compression).ToToml()},
                                {"optimizer", request_.optimizer.ToToml()},
                                {"store", StoreKey(request_.store)},
                                {"held_out_store", StoreKey(request_.held_out_store)},
                                {"seed", host_.seed},
                                {"decode", request_.decode.ToToml()},
                                {"batch", request_.plan.batch}};
    const fs::path file = folder / "outcome.json";
    if (fs::exists(file)) {
      const auto stored = nlohmann::json::parse(ReadFile(file), nullptr, false);
      if (stored.is_object() && stored.value("key", nlohmann::json()) == key) return FromJson(stored.at("outcome"));
    }
    host_.say(fmt::format("trying {}", Text(moves)));
    MakeFolder(folder);
    const Outcome outcome = Make(moves, folder);
    host_.say(fmt::format("  {} error {:.2f} %, {:.0f} frames/s, {:.2f} MB",
                          request_.decode.Keys().empty() ? "frame" : "word", 100 * outcome.error,
                          1 / outcome.seconds_per_frame, 1e-6 * static_cast<double>(outcome.bytes)));
    WriteFileAtomically(file, nlohmann::json({{"key", key}, {"outcome", OutcomeJson(outcome)}}).dump(1) + "\n");
    return outcome;
  }

 private:
  Outcome Make(const std::vector<Move>& moves, const fs::path& folder) {
    if (!moves.empty()) {
      const std::vector<Move> before(moves.begin(), moves.end() - 1);
      const auto from = std::make_shared<const nn::Model>(nn::Model::Load(ModelFile(before)));
      const train::CompressionRun run(request_.compression, from, request_.store, request_.held_out_store, host_.seed);
      run.Compress(moves.back().method, Config::Parse(moves.back().keys, moves.back().method), folder,
                   request_.optimizer);
    }
    const nn::Model model = nn::Model::Load(ModelFile(moves));
    const double error = Error(model, moves, folder);
    const ScoringCost cost = MeasureScoring(model, request_.plan.batch, "", host_.threads);
    return {error, 1 / cost.frames_per_second, cost.weight_bytes, cost.stream_bytes};
  }

  double Error(const nn::Model& model, const std::vector<Move>& moves, const fs::path& folder) {
    if (request_.decode.Keys().empty()) {
      const train::CompressionRun run(request_.compression, request_.model, request_.store, request_.held_out_store,
                                      host_.seed);
      return 1 - run.Measure(model).frame_accuracy;
    }
    return MeasureWordErrors(request_.decode, ModelFile(moves), model, folder / "decode", host_).rate;
  }

  const PlanRequest& request_;
  const StageHost& host_;
};

std::vector<std::string> PlanRow(const std::string& what, const Outcome* o, const std::string& verdict) {
  if (o == nullptr) return {what, "", "", "", verdict};
  return {what, fmt::format("{:.2f} %", 100 * o->error), fmt::format("{:.0f}", 1 / o->seconds_per_frame),
          fmt::format("{:.2f}", 1e-6 * static_cast<double>(o->bytes)), verdict};
}

void WritePlanReport(const compress::PlanResult& result, const PlanRequest& request) {
  report::HtmlReport page("Compression", request.model_file);
  page.AddFigures({{"Frames/s", fmt::format("{:.0f}", 1 / result.outcome.seconds_per_frame),
                    fmt::format("before {:.0f}, one core", 1 / result.full.seconds_per_frame)},
                   {"Megabytes", fmt::format("{:.2f}", 1e-6 * static_cast<double>(result.outcome.bytes)),
                    fmt::format("before {:.2f}", 1e-6 * static_cast<double>(result.full.bytes))},
                   {"Error", fmt::format("{:.2f} %", 100 * result.outcome.error),
                    fmt::format("before {:.2f} %", 100 * result.full.error)}});
  (result.met ? page.AddParagraph(result.conclusion) : page.AddWarning(result.conclusion));
  report::Series all{"tries", {}, true, true};
  report::Series front{"best of all", {}, false, true};
  const auto point = [](const Outcome& o) { return std::pair(1 / o.seconds_per_frame, 100 * o.error); };
  all.points.push_back(point(result.full));
  for (const compress::Try& t : result.tries) {
    if (!t.refused) all.points.push_back(point(t.outcome));
  }
  std::sort(all.points.begin(), all.points.end());
  for (const int i : ParetoFront(result)) {
    front.points.push_back(point(i < 0 ? result.full : result.tries[static_cast<size_t>(i)].outcome));
  }
  std::sort(front.points.begin(), front.points.end());
  page.AddLineChart(
      {.title = "What speed costs", .x_label = "frames/s", .y_label = "error, %", .series = {front, all}});
  report::Table table{
      "Steps", {"step", "error", "frames/s", "MB", "verdict"}, {}, {false, true, true, true, false}, ""};
  table.rows.push_back(PlanRow("the model as it is", &result.full, ""));
  for (const compress::Try& t : result.tries) {
    table.rows.push_back(PlanRow(Text(t.moves), t.refused ? nullptr : &t.outcome, t.verdict));
  }
  page.AddTable(table, true);
  WriteFileAtomically(request.folder / "report.html", page.Render());
}

}  // namespace

std::string ToJson(const compress::PlanResult& result) {
  nlohmann::json tries = nlohmann::json::array();
  for (const compress::Try& t : result.tries) {
    nlohmann::json moves = nlohmann::json::array();
    for (const Move& m : t.moves) moves.push_back(m.Text());
    tries.push_back({{"moves", moves}, {"kept", t.kept}, {"verdict", t.verdict}});
    if (!t.refused) tries.back()["outcome"] = OutcomeJson(t.outcome);
  }
  const nlohmann::json json = {
      {"full", OutcomeJson(result.full)}, {"tries", tries},    {"outcome", OutcomeJson(result.outcome)},
      {"front", ParetoFront(result)},     {"met", result.met}, {"chosen", Text(result.chosen)},
      {"conclusion", result.conclusion}};
  return json.dump(1);
}

compress::PlanResult SearchCompression(const PlanRequest& request, const StageHost& host) {
  if (!request.store) throw UsageError("--store is missing: without data nothing can be retrained and measured");
  compress::Budget budget;
  budget.real_time_factor = request.plan.rtf;
  const Config front_end = Config::Parse(request.model->feature_config, request.model_file);
  budget.frames_per_audio_second = 1000 / front_end.Real("frame-shift-ms").value_or(10.0);
  budget.bytes = static_cast<int64_t>(1e6 * request.plan.size_mb);
  budget.stream_bytes = static_cast<int64_t>(1e6 * request.plan.stream_mb);
  budget.max_loss = ParsePercent(request.plan.max_wer_loss, "--max-wer-loss");
  budget.slack = ParsePercent(request.plan.slack, "--slack");
  RealWorkshop workshop(request, host);
  compress::PlanResult result = SearchPlan(workshop, compress::StandardLadder(request.plan.methods), budget);
  for (const compress::Try& t : result.tries) host.say(fmt::format("{}: {}", Text(t.moves), t.verdict));
  const fs::path model = request.folder / "model.safetensors";
  nn::Model::Load(workshop.ModelFile(result.chosen)).Save(model);
  WriteFileAtomically(request.folder / "plan.json", ToJson(result) + "\n");
  WritePlanReport(result, request);
  host.say(result.conclusion);
  host.say(fmt::format("model: {}", model.string()));
  host.say(fmt::format("report: {}", (request.folder / "report.html").string()));
  return result;
}

}  // namespace antiphon::pipeline
