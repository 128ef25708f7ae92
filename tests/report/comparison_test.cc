#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "report/metrics.h"
#include "report/pages/comparison_report.h"
#include "temporary_folder.h"

namespace antiphon::report {
namespace {

class ComparisonTest : public ::testing::Test {
 protected:
  // A run of two epochs; its time per epoch and the held-out losses at their ends.
  ComparedRun Run(const std::string& method, int workers, uint64_t seed, double seconds, double loss1, double loss2) {
    ComparedRun run{method, workers, seed, folder_ / (method + std::to_string(workers) + std::to_string(seed)), ""};
    std::filesystem::create_directories(run.folder);
    report::MetricsWriter writer(run.folder / "metrics.jsonl");
    for (int epoch = 1; epoch <= 2; ++epoch) {
      writer.Write(report::MetricsRecord("epoch")
                       .Set("epoch", epoch)
                       .Set("frames", 1000 * epoch)
                       .Set("held_out_loss", epoch == 1 ? loss1 : loss2)
                       .Set("held_out_accuracy", 0.4 + 0.1 * epoch)
                       .Set("arithmetic_seconds", 0.75 * seconds * epoch)
                       .Set("data_seconds", 0.0)
                       .Set("communication_seconds", 0.25 * seconds * epoch)
                       .Set("other_seconds", 0.0)
                       .Set("bytes_sent", int64_t{2000000000} * epoch)
                       .Set("frames_per_second", 500.0));
    }
    return run;
  }
  // What the run says when it is through.
  void FinishWith(const ComparedRun& run, double accuracy) {
    const std::filesystem::path file = run.folder / "metrics.jsonl";
    report::MetricsWriter(file, std::filesystem::file_size(file))
        .Write(report::MetricsRecord("finish").Set("held_out_loss", 1.0).Set("held_out_accuracy", accuracy));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ComparisonTest, TellsMeansSpreadsAndTimeToTheCommonLoss) {
  ComparedRun failed{"bmuf", 4, 2, folder_ / "nowhere", "diverged"};
  const Comparison comparison = Compare(
      {Run("serial", 1, 1, 10, 2.0, 1.0), Run("serial", 1, 2, 14, 2.0, 1.2), Run("bmuf", 4, 1, 4, 1.6, 1.1), failed});
  ASSERT_EQ(comparison.rows.size(), 2u);
  const ComparedRow& serial = comparison.rows[0];
  EXPECT_DOUBLE_EQ(serial.loss.mean, 1.1);
  EXPECT_NEAR(serial.loss.spread, 0.1414, 1e-4);
  EXPECT_DOUBLE_EQ(serial.seconds.mean, 24);
  // The worst best loss is 1.2: the first serial run is there after 1.8 epochs, the second at its end.
  EXPECT_DOUBLE_EQ(comparison.common_loss, 1.2);
  EXPECT_NEAR(serial.seconds_to_common_loss.mean, (18.0 + 28.0) / 2, 1e-9);
  const ComparedRow& bmuf = comparison.rows[1];
  EXPECT_EQ(bmuf.accuracy.count, 1);
  EXPECT_NEAR(bmuf.seconds_to_common_loss.mean, 4 + 0.8 * 4, 1e-9);
  EXPECT_DOUBLE_EQ(bmuf.gigabytes_sent.mean, 4);
  ASSERT_EQ(bmuf.failures.size(), 1u);

  const std::string table = TextTable(comparison);
  EXPECT_NE(table.find("serial"), std::string::npos);
  EXPECT_NE(table.find("1 (1 failed)"), std::string::npos) << table;
  WriteComparison(comparison, "Ways", "test", "a = 1", folder_ / "compare.html");
  const std::string page = ReadFile(folder_ / "compare.html");
  EXPECT_NE(page.find("bmuf × 4: diverged"), std::string::npos);
  EXPECT_NE(page.find("1.2000 nats"), std::string::npos);
  EXPECT_NE(ToJson(comparison).find("\"common_loss\":1.2"), std::string::npos);
}

TEST_F(ComparisonTest, MeasuresAgainstTheFirstRowSeedBySeedAndReadsWordErrors) {
  std::vector<ComparedRun> runs = {Run("serial", 1, 1, 10, 2.0, 1.0), Run("serial", 1, 2, 10, 2.0, 1.0),
                                   Run("bmuf", 2, 2, 10, 2.0, 1.0), Run("bmuf", 4, 3, 10, 2.0, 1.0)};
  FinishWith(runs[1], 0.7);
  FinishWith(runs[2], 0.72);
  std::filesystem::create_directories(runs[2].folder / "decode");
  WriteFileAtomically(runs[2].folder / "decode" / "summary.json", R"({"score": {"error_rate": 0.0125}})");
  const Comparison comparison = Compare(runs);
  EXPECT_EQ(comparison.rows[0].accuracy_difference.count, 0);
  ASSERT_EQ(comparison.rows[1].accuracy_difference.count, 1);
  EXPECT_NEAR(comparison.rows[1].accuracy_difference.mean, 0.02, 1e-9);
  EXPECT_EQ(comparison.rows[2].accuracy_difference.count, 0) << "no serial run of seed 3";
  ASSERT_EQ(comparison.rows[1].word_error_rate.count, 1);
  EXPECT_NEAR(comparison.rows[1].word_error_rate.mean, 0.0125, 1e-9);

  const std::string markdown = MarkdownTables(comparison);
  EXPECT_NE(markdown.find("Word error rate, %:\n\n| method | × 1 | × 2 | × 4 |\n|---|---|---|---|\n"
                          "| serial | – |  |  |\n| bmuf |  | 1.25 | – |\n"),
            std::string::npos)
      << markdown;
  EXPECT_NE(TextTable(comparison).find("+2.00"), std::string::npos) << TextTable(comparison);
  EXPECT_NE(ToJson(comparison).find("\"word_error_rate\":0.0125"), std::string::npos);
  WriteFileAtomically(runs[2].folder / "decode" / "summary.json", "{");
  EXPECT_THROW(Compare(runs), InputError);
}

TEST_F(ComparisonTest, RefusesAFolderWithoutEpochs) {
  ComparedRun run{"serial", 1, 1, folder_ / "empty", ""};
  std::filesystem::create_directories(run.folder);
  report::MetricsWriter(run.folder / "metrics.jsonl").Write(report::MetricsRecord("start"));
  EXPECT_THROW(Compare({run}), InputError);
}

}  // namespace
}  // namespace antiphon::report
