// A live store whose recording ffmpeg reads, after somebody asked to stop.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finally.h"
#include "base/random.h"
#include "data/archive.h"
#include "data/data_summary.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"
#include "data/recording_frames.h"
#include "data/sample_rate.h"
#include "fake_program.h"
#include "feat/audio.h"
#include "feat/foreign_sound.h"
#include "feat/front_end.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

class StoppedLiveStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!feat::ForeignSoundIsRead()) GTEST_SKIP() << "ffmpeg is not installed";
    Rng rng(4);
    feat::Waveform wave{std::vector<float>(8000 * 2), 8000};
    for (float& x : wave.samples) x = static_cast<float>(300 * rng.Normal());
    const std::string wav = folder_ / "ann.wav";
    feat::WriteWav(wav, wave);
    ASSERT_EQ(RunProgram({"ffmpeg", "-nostdin", "-v", "error", "-i", wav, "-c:a", "alac", folder_ / "ann.m4a"}), 0);
    PutFile(folder_ / "data/wav.scp", "ann ann.m4a\n");
    PutFile(folder_ / "data/utt2spk", "ann ann\n");
    PutFile(folder_ / "data/text", "ann A\n");
    feat::FrontEndOptions front_end = feat::FrontEndOptions::Standard("mfcc", 8000);
    PutFile(folder_ / "front_end.toml", OptionsToConfig(front_end).ToToml());
    TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark");
    const int64_t frames = feat::FrontEnd(front_end).NumFrames(std::ssize(wave.samples));
    pdfs.Write("ann", std::vector<int32_t>(static_cast<size_t>(frames), 1));
    pdfs.Close();
    BuildFrameStoreOptions options;
    options.live.data = (folder_ / "data").string();
    options.live.front_end = (folder_ / "front_end.toml").string();
    options.pdf_alignment = (folder_ / "pdf.scp").string();
    BuildFrameStore(options, folder_ / "store", 1);
    store_ = std::make_shared<const FrameStore>(folder_ / "store");
  }
  void TearDown() override { ResetCancel(); }

  // By a pool of its own, with so many threads that make features.
  std::vector<float> FirstMinibatch(int threads) const {
    MinibatchOptions options;
    options.minibatch = 16;
    options.feature_threads = threads;
    const MinibatchPool pool(store_, options, 5);
    MinibatchBuffer buffer;
    pool.Fill(0, 0, 0, buffer);
    const MatrixView features = buffer.minibatch.features;
    return {features.data(), features.data() + features.size()};
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const FrameStore> store_;
};

// Trainings save between two steps, to which all workers may still need data.
TEST_F(StoppedLiveStore, GivesWhatIsAskedFor) {
  const std::vector<float> expected = FirstMinibatch(1);
  RequestCancel();
  EXPECT_EQ(FirstMinibatch(1), expected);
  EXPECT_EQ(FirstMinibatch(0), expected);
}

TEST_F(StoppedLiveStore, CallsNoInputBadBecauseFfmpegWasStoppedToo) {
  const ::antiphon::testing::FakeProgram stopped(folder_ / "bin", "ffmpeg", "exit 255");
  EXPECT_THROW(FirstMinibatch(0), InputError);
  RequestCancel();
  EXPECT_THROW(FirstMinibatch(0), Cancelled);
}

// Before a store is made, too.
TEST_F(StoppedLiveStore, CallsNoRecordingBadThatWasNotReadToItsEnd) {
  const DataDir dir = DataDir::Load(folder_ / "data");
  const AudioSource audio(dir);
  const std::vector<internal::SpeechCopy> unchanged(1);
  const std::vector<internal::SpeechItem> items = internal::MakeItems(dir, unchanged);
  const feat::FrontEnd front_end(feat::FrontEndOptions::Standard("mfcc", 8000));
  EXPECT_EQ(internal::TryFramesOf(items.at(0), audio, front_end, {}).error, "");
  RequestCancel();
  EXPECT_THROW(internal::TryFramesOf(items.at(0), audio, front_end, {}), Cancelled);
  EXPECT_THROW(Summarise(dir, nullptr), Cancelled);
  EXPECT_THROW(RateOfData(dir, audio, false, 1), Cancelled);
}

}  // namespace
}  // namespace antiphon::data
