#include <gtest/gtest.h>

#include <regex>

#include "base/file.h"
#include "report/metrics.h"
#include "report/pages/scoring_report.h"
#include "report/pages/training_report.h"
#include "temporary_folder.h"

namespace antiphon::report {
namespace {

TEST(ScoringReport, ShowsRatesAndWhatWasTakenForWhat) {
  const score::Report scored =
      score::Score(score::ParseTranscripts("a one two three\nb four\n", score::TranscriptFormat::kText, "ref"),
                   score::ParseTranscripts("a one too three oh\nb four\n", score::TranscriptFormat::kText, "hyp"),
                   {{"a", "ann"}, {"b", "bob"}});
  report::HtmlReport page("t", "s");
  AddScoringSections(page, {{"test", scored}});
  const std::string html = page.Render();
  EXPECT_NE(html.find("50.00 %"), std::string::npos) << "two errors in four words";
  EXPECT_NE(html.find("<del>two</del><ins>too</ins>"), std::string::npos);
  EXPECT_NE(html.find("<ins>oh</ins>"), std::string::npos);
  EXPECT_NE(html.find("ann"), std::string::npos);
  EXPECT_EQ(html.find("<b>b</b>"), std::string::npos) << "an utterance without errors is no example";
}

TEST(ScoringReport, ShowsNoRateOfNothing) {
  const auto none = score::ParseTranscripts("", score::TranscriptFormat::kText, "none");
  report::HtmlReport page("t", "s");
  AddScoringSections(page, {{"test", score::Score(none, none)}});
  const std::string html = page.Render();
  EXPECT_EQ(html.find("0.00 %"), std::string::npos);
  EXPECT_NE(html.find("no utterances to score"), std::string::npos);
}

// Six columns are wider than half a page of 1280 pixels.
TEST(TrainingReport, GivesTheEpochsTheWholeWidth) {
  const testing::TemporaryFolder folder;
  report::MetricsWriter(folder / "metrics.jsonl")
      .Write(report::MetricsRecord("epoch").Set("epoch", 1).Set("step", 10).Set("held_out_accuracy", 0.5));
  WriteTrainingReport(folder.path());
  const std::string html = ReadFile(folder / "report.html");
  EXPECT_NE(html.find("<section class=\"card wide\"><h3>Epochs</h3>"), std::string::npos);
}

TEST(TrainingReport, LeavesOutStepsThatAFallbackUndid) {
  const testing::TemporaryFolder folder;
  {
    report::MetricsWriter writer(folder / "metrics.jsonl");
    const auto step = [&](int n, double loss) {
      writer.Write(report::MetricsRecord("step")
                       .Set("step", n)
                       .Set("train_loss", loss)
                       .Set("train_accuracy", 0.5)
                       .Set("learning_rate", 1.0)
                       .Set("frames_per_second", 100.0));
    };
    step(10, 2.0);
    step(20, 777.25);
    writer.Write(report::MetricsRecord("event").Set("what", "fallback").Set("step", 10).Set("message", "fell back!"));
    step(20, 1.5);
  }
  WriteTrainingReport(folder.path());
  const std::string html = ReadFile(folder / "report.html");
  EXPECT_EQ(html.find("777.25"), std::string::npos);
  EXPECT_NE(html.find("fell back!"), std::string::npos);
  EXPECT_NE(html.find("[20,1.5]"), std::string::npos);
}

}  // namespace
}  // namespace antiphon::report
