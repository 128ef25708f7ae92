// Extractor files that no training wrote are refused with their name, before anything is computed with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "hmm/ivector.h"
#include "math/safetensors.h"
#include "temporary_folder.h"

namespace antiphon::hmm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two Gaussians of one dimension, vectors of one number.
struct Parts {
  std::string version = "2";
  std::vector<float> weights = {0.25F, 0.75F};
  std::vector<double> variability = {1, 2};
  std::string options = "period = 10";
  std::vector<int32_t> context = {0, 0};
  std::vector<float> transform = {1, 0};
  double prior_offset = 0;
};

std::string LoadError(const Parts& parts) {
  const testing::TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.SetMetadata("format", "antiphon-ivector-extractor");
  writer.SetMetadata("version", parts.version);
  const Matrix zeros(2, 1);
  Matrix ones(2, 1);
  ones(0, 0) = ones(1, 0) = 1;
  writer.Add("weights", parts.weights);
  writer.Add("means", zeros.view());
  writer.Add("variances", ones.view());
  writer.Add("variability", BasicMatrixView<const double>(parts.variability.data(), 2, 1));
  writer.SetMetadata("options", parts.options);
  writer.Add("context", std::span<const int32_t>(parts.context));
  writer.Add("transform", ConstMatrixView(parts.transform.data(), 1, std::ssize(parts.transform)));
  writer.Add("prior_offset", std::span<const double>(&parts.prior_offset, 1));
  writer.Write(folder / "extractor.safetensors");
  try {
    IvectorExtractor::Load(folder / "extractor.safetensors");
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("extractor.safetensors"));
    return e.what();
  }
  return "";
}

TEST(IvectorFile, IsTakenAsItIsWritten) { EXPECT_EQ(LoadError({}), ""); }

TEST(IvectorFile, OfAnotherVersionIsRefused) {
  EXPECT_THAT(LoadError({.version = "9"}), AllOf(HasSubstr("version 9"), HasSubstr("reads version 2")));
}

TEST(IvectorFile, WithWeightsThatAreNoneIsRefused) {
  EXPECT_THAT(LoadError({.weights = {-0.25F, 1.25F}}), HasSubstr("Gaussian 0 has weight -0.25"));
  EXPECT_THAT(LoadError({.weights = {0.5F, NAN}}), HasSubstr("Gaussian 1 has weight nan"));
  EXPECT_THAT(LoadError({.weights = {0.5F, 0.75F}}), HasSubstr("add up to 1.25"));
}

TEST(IvectorFile, WithVariabilityThatIsNotFiniteIsRefused) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e200}) {
    EXPECT_THAT(LoadError({.variability = {1, bad}}), HasSubstr("variability of Gaussian 1 is not finite")) << bad;
  }
}

TEST(IvectorFile, WithOptionsTransformsOrOffsetsThatAreNoneIsRefused) {
  EXPECT_THAT(LoadError({.options = "period = 0"}), HasSubstr("period"));
  EXPECT_THAT(LoadError({.options = "spells = 3"}), HasSubstr("spells"));
  EXPECT_THAT(LoadError({.context = {0}}), HasSubstr("'context' has 1 numbers"));
  EXPECT_THAT(LoadError({.context = {-1, 1}}), HasSubstr("context of -1 frames"));
  EXPECT_THAT(LoadError({.transform = {NAN, 0}}), HasSubstr("transform has values that are not finite"));
  EXPECT_THAT(LoadError({.prior_offset = -1}), HasSubstr("prior offset"));
  EXPECT_THAT(LoadError({.prior_offset = static_cast<double>(NAN)}), HasSubstr("prior offset"));
}

}  // namespace
}  // namespace antiphon::hmm
