#include "antiphon/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "antiphon/error.h"
#include "base/file.h"
#include "feat/audio.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using ::testing::ElementsAre;

TEST(Datasets, AreDataDirectories) {
  const testing::TemporaryFolder folder;
  feat::Waveform wave{.samples = std::vector<float>(8000, 16384.0F), .sample_rate_hz = 8000};
  wave.samples[4000] = -8192;
  feat::WriteWav(folder / "rec.wav", wave);
  WriteFileAtomically(folder / "wav.scp", "rec rec.wav\n");
  WriteFileAtomically(folder / "segments", "a-1 rec 0.0 0.25\na-2 rec 0.5 1.0\n");
  WriteFileAtomically(folder / "text", "a-1 one two\n");
  WriteFileAtomically(folder / "utt2spk", "a-1 a\na-2 a\n");
  const Dataset data(folder.path().string());
  ASSERT_EQ(data.utterances().size(), 2U);
  EXPECT_THAT(data.speakers(), ElementsAre("a"));
  EXPECT_EQ(data.utterances()[0].text, "one two");
  EXPECT_FALSE(data.utterances()[1].has_text);
  EXPECT_EQ(data.utterances()[1].recording, "rec");
  const DatasetAudio audio = data.Samples(1);
  EXPECT_EQ(audio.sample_rate_hz, 8000);
  ASSERT_EQ(audio.samples.size(), 4000U);
  EXPECT_FLOAT_EQ(audio.samples[0], -0.25F);
  EXPECT_FLOAT_EQ(audio.samples[1], 0.5F);
  EXPECT_THROW(data.Samples(2), Error);
  WriteFileAtomically(folder / "wav.scp", "rec cat rec.wav |\n");
  EXPECT_THROW(Dataset(folder.path().string()).Samples(0), Error);
  EXPECT_THROW(Dataset((folder / "nowhere").string()), Error);
}

}  // namespace
}  // namespace antiphon
