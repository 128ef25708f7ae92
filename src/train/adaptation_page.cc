#include "train/adaptation_page.h"

#include <fmt/format.h>

#include "report/html.h"

namespace antiphon::train {
namespace {

std::string PercentText(const DomainMeasures& m) {
  return m.frames > 0 ? fmt::format("{:.2f} %", 100 * m.frame_accuracy) : "not measured";
}

report::Figure FigureOf(const std::string& speech, const DomainMeasures& before, const DomainMeasures& after) {
  return {"Frame accuracy, " + speech, PercentText(after), "before: " + PercentText(before)};
}

void AddTrials(report::HtmlReport& page, const AdaptationResult& result) {
  if (result.trials.size() < 2) return;
  report::Series fresh{.name = "new speech", .markers = true},
      old{.name = "old speech", .dashed = true, .markers = true};
  for (const AdaptationTrial& trial : result.trials) {
    if (trial.new_speech.frames > 0) fresh.points.emplace_back(trial.original_share, trial.new_speech.loss);
    if (trial.old_speech.frames > 0) old.points.emplace_back(trial.original_share, trial.old_speech.loss);
  }
  page.AddLineChart({.title = "Held-out loss by share of the unadapted model (ρ)",
                     .x_label = "ρ",
                     .y_label = "nats per frame",
                     .series = {fresh, old}});
}

void AddSchedule(report::HtmlReport& page, const AdaptationResult& result) {
  if (result.schedule.empty()) return;
  report::Series share{.name = "new speech"};
  for (const auto& [epoch, part] : result.schedule) share.points.emplace_back(epoch, 100 * part);
  page.AddLineChart({.title = "New speech in the training run",
                     .x_label = "epoch",
                     .y_label = "% of frames",
                     .series = {share},
                     .note = "Where among the old speech the new one stood."});
}

}  // namespace

std::string AdaptationPage(const AdaptationResult& result, const std::string& method) {
  report::HtmlReport page("Adaptation by " + method, result.model.string());
  page.AddFigures({{"The model", result.accepted ? "adapted" : "as it was", result.accepted ? "" : "see below"},
                   FigureOf("new speech", result.new_before, result.new_after),
                   FigureOf("old speech", result.old_before, result.old_after)});
  if (result.accepted) {
    page.AddParagraph(result.verdict);
  } else {
    page.AddWarning(result.verdict);
  }
  if (!result.probe_layer.empty()) {
    page.AddParagraph(
        fmt::format("Frames in which a fresh classifier tells new from old speech by {}: {}; before {}. A guess is "
                    "right in 50 %.",
                    result.probe_layer, ProbeText(result.probe_after), ProbeText(result.probe_before)));
  }
  AddTrials(page, result);
  AddSchedule(page, result);
  report::Table layers{.title = "Layers", .header = {"layer", "what was done"}};
  for (const adapt::Change& change : result.changes) layers.rows.push_back({change.layer, change.what});
  page.AddTable(layers);
  return page.Render();
}

}  // namespace antiphon::train
