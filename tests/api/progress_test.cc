// What a call tells of its way: all of it, with the passes that adapt to the speaker.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "antiphon/recognizer.h"
#include "api/two_words.h"

namespace antiphon {
namespace {

constexpr int kSeconds = 60;  // in pieces

// As the call tells it.
std::vector<double> Told(const testing::TwoWords& system, int adapt_passes) {
  const Recognizer recognizer((system.folder / "net.safetensors").string(), (system.folder / "graph").string(),
                              {.adapt_passes = adapt_passes});
  std::vector<float> samples = testing::Noise(kSeconds * testing::kRateHz);
  for (float& sample : samples) sample /= 32768;
  std::vector<double> told;
  RecognizeSettings settings;
  settings.progress = [&](double done_s) { told.push_back(done_s); };
  recognizer.Recognize(samples, testing::kRateHz, settings);
  return told;
}

TEST(Progress, CountsThePassesThatAdaptToTheSpeaker) {
  const testing::TwoWords system(/*with_transform=*/true);
  for (const int passes : {0, 1, 2}) {
    const std::vector<double> told = Told(system, passes);
    ASSERT_FALSE(told.empty());
    EXPECT_TRUE(std::ranges::is_sorted(told)) << passes;
    EXPECT_NEAR(told.back(), kSeconds, 0.1) << passes;
    // Each pass, and the search after them, tells several times where it is.
    for (int pass = 0; pass <= passes; ++pass) {
      const double begin_s = kSeconds * static_cast<double>(pass) / (passes + 1);
      const double end_s = kSeconds * static_cast<double>(pass + 1) / (passes + 1);
      EXPECT_GE(std::ranges::count_if(told, [&](double s) { return s > begin_s && s < end_s - 1e-6; }), 3)
          << "pass " << pass << " of " << passes;
    }
  }
}

}  // namespace
}  // namespace antiphon
