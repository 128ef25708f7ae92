#include "pipeline/chosen_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

using ::testing::HasSubstr;

TEST(ChosenWeights, AreReadAsTheyWereWritten) {
  const testing::TemporaryFolder folder;
  WriteChosenWeights(folder / "weights.toml", {14.5, -0.25, 0.7, 3.125}, "chosen on dev");
  const ChosenWeights chosen = ReadChosenWeights(folder / "weights.toml");
  EXPECT_EQ(chosen.lm_weight, 14.5);
  EXPECT_EQ(chosen.word_penalty, -0.25);
  EXPECT_EQ(chosen.weights().acoustic_scale, 1 / 14.5);
  EXPECT_EQ(chosen.weights().risk_scale, 0.7);
  EXPECT_EQ(chosen.contrast, 3.125);
}

// Files of before have no scale of risk, and say nothing of contrast.
TEST(ChosenWeights, MeanTheLikeliestPathUnlessTheySaySo) {
  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "weights.toml", "lm-weight = 12\nword-penalty = 0.5\n");
  const ChosenWeights chosen = ReadChosenWeights(folder / "weights.toml");
  EXPECT_EQ(chosen.weights().risk_scale, 0.0);
  EXPECT_EQ(chosen.contrast, 0.0);
}

TEST(ChosenWeights, AreNeitherGuessedNorIgnored) {
  const testing::TemporaryFolder folder;
  const std::pair<const char*, const char*> refused[] = {
      {"", "lacks lm-weight"},
      {"lm-weight = 14\n", "lacks word-penalty"},
      {"lm-weight = 14\nword-penalty = 0\nword-penality = 3\n", "word-penality"},
      {"lm-weight = 14\nword-penalty = 0\n[lm]\nweight = 3\n", "'lm'"},
      {"lm-weight = 0\nword-penalty = 0\n", "lm-weight"},
      {"lm-weight = nan\nword-penalty = 0\n", "lm-weight"},
      {"lm-weight = 14\nword-penalty = inf\n", "word-penalty"}};
  for (const auto& [text, named] : refused) {
    WriteFileAtomically(folder / "weights.toml", text);
    try {
      ReadChosenWeights(folder / "weights.toml");
      ADD_FAILURE() << "expected an error for\n" << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("weights.toml"), HasSubstr(named)));
    }
  }
}

}  // namespace
}  // namespace antiphon::pipeline
