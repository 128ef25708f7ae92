#include "feat/audio_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace antiphon::feat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AudioCheck, TellsQuietLoudAndNarrowAudioFromGood) {
  AudioCheck nothing, good, quiet;
  EXPECT_EQ(nothing.Remarks().size(), 1U);
  good.Accept(std::vector<float>{100, -8000, 32767, 5, 32767});  // single peaks are no clipping
  EXPECT_TRUE(good.Remarks().empty());
  quiet.Accept(std::vector<float>{3, -4, 5});
  EXPECT_EQ(quiet.Remarks().size(), 1U);
  // A run that is cut into pieces.
  AudioCheck clipped;
  clipped.Accept(std::vector<float>{1, 32767});
  clipped.Accept(std::vector<float>{32767, 32767, 2});
  EXPECT_NEAR(clipped.clipped_share(), 0.6, 1e-9);
  // Clipped to the largest sample of µ-law, A-law, 8 bits; loud samples that differ are none.
  for (const float end : {32124.0F, -32124.0F, 32256.0F, 32512.0F}) {
    AudioCheck telephone;
    telephone.Accept(std::vector<float>{1, end});
    telephone.Accept(std::vector<float>{end, end, 2});
    EXPECT_NEAR(telephone.clipped_share(), 0.6, 1e-9) << end;
  }
  AudioCheck loud;
  loud.Accept(std::vector<float>{32000, 32000, 32200, 32300, 32700, 32767, 32700, -32124, 32124});
  EXPECT_EQ(loud.clipped_share(), 0);
  EXPECT_EQ(NarrowBandRemark(16000, 16000), "");
  EXPECT_THAT(NarrowBandRemark(8000, 16000), HasSubstr("4000 Hz"));
  EXPECT_THAT(quiet.Remarks(8000, 16000), ElementsAre(HasSubstr("4000 Hz"), HasSubstr("quiet")));
}

}  // namespace
}  // namespace antiphon::feat
