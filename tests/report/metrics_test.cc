#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon::report {
namespace {

TEST(Metrics, WritesOneJsonObjectPerLineInTheGivenOrder) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "new/order.jsonl";
  MetricsWriter writer(path);
  writer.Write(MetricsRecord("step").Set("step", 3).Set("loss", 1.25).Set("name", "a \"b\"\n"));
  EXPECT_EQ(ReadFile(path), "{\"kind\":\"step\",\"step\":3,\"loss\":1.25,\"name\":\"a \\\"b\\\"\\n\"}\n");
  EXPECT_EQ(writer.position(), ReadFile(path).size());
}

TEST(Metrics, StaysValidJsonForNonFiniteValuesAndOddBytes) {
  const MetricsRecord record = MetricsRecord("x")
                                   .Set("nan", std::nan(""))
                                   .Set("inf", std::numeric_limits<double>::infinity())
                                   .Set("bytes", std::string("\xff\x01"));
  const auto json = nlohmann::json::parse(record.ToJson());
  EXPECT_TRUE(json["nan"].is_null());
  EXPECT_TRUE(json["inf"].is_null());
}

TEST(Metrics, ReadsBackWhatItWroteAndLeavesOutATornLine) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "torn.jsonl";
  {
    MetricsWriter writer(path);
    writer.Write(MetricsRecord("epoch").Set("loss", 0.1).Set("rates", std::vector<double>{1.5, 2}).Set("ok", true));
  }
  WriteFileAtomically(path, ReadFile(path) + "{\"kind\":\"epo");
  const auto records = ReadMetrics(path);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind(), "epoch");
  EXPECT_EQ(records[0].Number("loss"), 0.1);
  EXPECT_FALSE(records[0].Number("missing").has_value());
}

TEST(Metrics, ResumeCutsTheFileBackToTheCheckpointedPosition) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "resume.jsonl";
  uint64_t position = 0;
  {
    MetricsWriter writer(path);
    writer.Write(MetricsRecord("step").Set("step", 1));
    position = writer.position();
    writer.Write(MetricsRecord("step").Set("step", 2));
  }
  MetricsWriter(path, position).Write(MetricsRecord("step").Set("step", 20));
  const auto records = ReadMetrics(path);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].Number("step"), 20);
}

TEST(Metrics, RefusesAFileShorterThanTheCheckpointKnows) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "short.jsonl";
  WriteFileAtomically(path, "{}\n");
  EXPECT_THROW(MetricsWriter(path, 100), IoError);
}

TEST(Metrics, NamesFileAndLineOfABrokenRecord) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "broken.jsonl";
  WriteFileAtomically(path, "{\"a\":1}\nnonsense\n");
  try {
    ReadMetrics(path);
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("broken.jsonl:2"), std::string::npos) << e.what();
  }
}

TEST(Metrics, FullDiskIsAnErrorThatNamesTheFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  MetricsWriter writer("/dev/full");
  try {
    writer.Write(MetricsRecord("step"));
    FAIL() << "expected IoError";
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("disk is full"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace antiphon::report
