#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/archive.h"
#include "data/feature_extraction.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"
#include "feat/augment.h"
#include "feat/cmvn.h"
#include "feat/foreign_sound.h"
#include "feat/front_end.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Frames by their id: what each minibatch says of them.
using FramesById = std::map<int64_t, std::vector<float>>;

class LiveStoreTest : public ::testing::Test {
 protected:
  // Two recordings of two speakers at another rate than the front end's, cut into segments; an alignment of each
  // utterance and of its copy at another speed.
  LiveStoreTest() {
    std::string wav, segments, utt2spk, text;
    for (int speaker = 0; speaker < 2; ++speaker) {
      const std::string name = speaker == 0 ? "ann" : "bob";
      Rng rng(static_cast<uint64_t>(speaker));
      feat::Waveform wave{std::vector<float>(11025 * 3), 11025};
      for (float& x : wave.samples) x = static_cast<float>((speaker + 1) * 300 * rng.Normal());
      feat::WriteWav(folder_ / (name + ".wav"), wave);
      wav += name + " " + name + ".wav\n";
      for (int i = 0; i < 5; ++i) {
        const std::string id = fmt::format("{}-{}", name, i);
        segments += fmt::format("{} {} {:.7f} {:.7f}\n", id, name, 0.0412345 + 0.5 * i, 0.5 * i + 0.35 + 0.02 * i);
        utt2spk += id + " " + name + "\n";
        text += id + " A B\n";
      }
    }
    PutFile(folder_ / "data/wav.scp", wav);
    PutFile(folder_ / "data/segments", segments);
    PutFile(folder_ / "data/utt2spk", utt2spk);
    PutFile(folder_ / "data/text", text);
    FeatureExtractionOptions features;
    features.front_end = feat::FrontEndOptions::Standard("mfcc", 8000);
    features.front_end.dither = 1.0;
    features.coding = "plain";
    features.speeds = {0.9};
    ExtractFeatures(DataDir::Load(folder_ / "data"), features, folder_ / "feats", 1);
    const RandomAccessReader<Matrix> matrices((folder_ / "feats/feats.scp").string());
    TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark");
    for (const std::string& utt_id : matrices.keys()) {
      std::vector<int32_t> ids(static_cast<size_t>(matrices.Get(utt_id).rows()) - (utt_id == "bob-3" ? 1 : 0));
      for (size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<int32_t>(t % 7);
      pdfs.Write(utt_id, ids);
    }
    pdfs.Close();
    made_.input.features = (folder_ / "feats/feats.scp").string();
    made_.input.utt2spk = (folder_ / "feats/utt2spk").string();
    made_.input.cmvn = (folder_ / "feats/cmvn.scp").string();
    live_.live.data = (folder_ / "data").string();
    live_.live.front_end = (folder_ / "feats/front_end.toml").string();
    made_.pdf_alignment = live_.pdf_alignment = (folder_ / "pdf.scp").string();
  }

  std::shared_ptr<const FrameStore> Live() {
    BuildFrameStore(live_, folder_ / "live", 2);
    return std::make_shared<const FrameStore>(folder_ / "live");
  }
  std::shared_ptr<const FrameStore> Made() {
    BuildFrameStore(made_, folder_ / "made", 2);
    return std::make_shared<const FrameStore>(folder_ / "made");
  }

  static Matrix FramesOf(const FrameStore& store, size_t utterance) {
    Matrix frames(store.utterances()[utterance].num_frames, store.feat_dim());
    store.ReadFrames(utterance, 0, frames);
    return frames;
  }
  static bool SameBits(const Matrix& a, const Matrix& b) {
    return a.rows() == b.rows() && a.cols() == b.cols() && std::equal(a.data(), a.data() + a.size(), b.data());
  }

  // Of a whole epoch of all workers, and in which order.
  static FramesById ReadEpoch(const MinibatchPool& pool, int64_t epoch, std::vector<int64_t>* order = nullptr) {
    FramesById frames;
    MinibatchBuffer buffer;
    for (int rank = 0; rank < (pool.options().distribution == Distribution::kPool ? 1 : pool.world_size()); ++rank) {
      for (int64_t i = 0; i < pool.num_minibatches(epoch, rank); ++i) {
        pool.Fill(epoch, rank, i, buffer);
        const Minibatch& m = buffer.minibatch;
        for (size_t n = 0; n < m.frame_ids.size(); ++n) {
          if (order != nullptr) order->push_back(m.frame_ids[n]);
          if (m.frame_ids[n] < 0) continue;
          const auto row = m.features.Row(static_cast<int64_t>(n));
          EXPECT_TRUE(frames.emplace(m.frame_ids[n], std::vector<float>(row.begin(), row.end())).second);
        }
      }
    }
    return frames;
  }

  // What varies nearly every utterance.
  static MinibatchOptions Varied() {
    MinibatchOptions options;
    options.minibatch = 32;
    options.left_context = options.right_context = 1;
    options.shuffle_frames = 100;
    options.augment.noise_probability = 0.7;
    options.augment.reverb_probability = 0.5;
    options.augment.volume_low = 0.3;
    options.augment.clean_share = 0.1;
    return options;
  }

  std::string BuildMessage() {
    try {
      BuildFrameStore(live_, folder_ / "live", 2);
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  }

  ::antiphon::testing::TemporaryFolder folder_;
  BuildFrameStoreOptions made_, live_;
};

TEST_F(LiveStoreTest, GivesTheBitsOfAStoreThatWasMadeBeforehand) {
  for (const char* coding : {"uint8", "uint16"}) {
    made_.store.coding = live_.store.coding = coding;
    made_.input.norm_vars = live_.input.norm_vars = coding == std::string("uint16");
    const auto made = Made(), live = Live();
    ASSERT_EQ(live->utterances().size(), 20u);
    ASSERT_EQ(made->utterances().size(), 20u);
    EXPECT_EQ(live->num_frames(), made->num_frames());
    EXPECT_EQ(live->description(), made->description());
    EXPECT_EQ(live->CountPdfs(), made->CountPdfs());
    EXPECT_NE(live->live(), nullptr);
    EXPECT_EQ(made->live(), nullptr);
    EXPECT_LT(fs::file_size(folder_ / "live/shard-00000.frames"),
              fs::file_size(folder_ / "made/shard-00000.frames") / 4);
    for (size_t u = 0; u < 20; ++u) {
      EXPECT_EQ(live->utterances()[u].utt_id, made->utterances()[u].utt_id);
      EXPECT_EQ(live->speakers()[static_cast<size_t>(live->utterances()[u].speaker)],
                made->speakers()[static_cast<size_t>(made->utterances()[u].speaker)]);
      EXPECT_TRUE(SameBits(FramesOf(*live, u), FramesOf(*made, u))) << coding << " " << made->utterances()[u].utt_id;
    }
    EXPECT_EQ(EstimateMoments(*live).mean, EstimateMoments(*made).mean);
  }
}

// With statistics of a table, lengths are those of the headers.
TEST_F(LiveStoreTest, TakesStatisticsOfATable) {
  live_.input.cmvn = made_.input.cmvn;
  const auto made = Made(), live = Live();
  for (size_t u = 0; u < 20; ++u) EXPECT_TRUE(SameBits(FramesOf(*live, u), FramesOf(*made, u)));
}

TEST_F(LiveStoreTest, LeavesFramesAsTheFrontEndMakesThemWhereAsked) {
  live_.live.normalise = false;
  made_.input.cmvn = "";
  const auto made = Made(), live = Live();
  EXPECT_EQ(live->description(), made->description());
  for (size_t u = 0; u < 20; ++u) EXPECT_TRUE(SameBits(FramesOf(*live, u), FramesOf(*made, u)));
}

TEST_F(LiveStoreTest, FindsThePriorOfAMeanThatIsTakenOut) {
  FeatureExtractionOptions features;
  features.front_end = feat::FrontEndOptions::Standard("fbank", 8000);
  features.front_end.mean_window = 30;
  features.coding = "plain";
  features.speeds = {0.9};
  ExtractFeatures(DataDir::Load(folder_ / "data"), features, folder_ / "feats", 1);
  made_.input.cmvn = "";
  PutFile(folder_ / "asked.toml", OptionsToConfig(features.front_end).ToToml());
  live_.live.front_end = (folder_ / "asked.toml").string();
  const auto made = Made(), live = Live();
  EXPECT_EQ(live->description(), made->description());
  for (size_t u = 0; u < 20; ++u) EXPECT_TRUE(SameBits(FramesOf(*live, u), FramesOf(*made, u)));
}

// Blocks of whole utterances, windows of some utterances; in chunks, all in one window.
TEST_F(LiveStoreTest, HandsOutTheMinibatchesOfAStoreMadeBeforehand) {
  const auto made = Made(), live = Live();
  for (const int chunk : {0, 8}) {
    for (const int threads : {0, 3}) {
      MinibatchOptions options;
      options.minibatch = 24;
      options.left_context = options.right_context = 2;
      options.block_frames = 1 << 20;
      options.shuffle_frames = chunk > 0 ? 1 << 18 : 90;
      options.chunk_frames = chunk;
      options.carry_state = false;
      options.feature_threads = threads;
      const MinibatchPool of_made(made, options, 5), of_live(live, options, 5);
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        std::vector<int64_t> order_of_made, order_of_live;
        const FramesById expected = ReadEpoch(of_made, epoch, &order_of_made);
        EXPECT_EQ(ReadEpoch(of_live, epoch, &order_of_live), expected);
        EXPECT_EQ(order_of_live, order_of_made);
        EXPECT_EQ(std::ssize(expected), made->num_frames());
      }
    }
  }
}

TEST_F(LiveStoreTest, DrawsAnewInEveryEpoch) {
  const auto store = Live();
  Mixing run;
  run.epochs = 3;
  const MinibatchPool pool(store, Varied(), 5, 1, {}, {}, {}, run);
  const FramesById first = ReadEpoch(pool, 0), second = ReadEpoch(pool, 1);
  EXPECT_EQ(std::ssize(first), store->num_frames());
  EXPECT_NE(first, second);
  // Who reads, how many read, from where and with how many threads changes nothing.
  MinibatchOptions other = Varied();
  other.feature_threads = 0;
  other.minibatch = 50;
  other.shuffle_frames = 1 << 18;
  const MinibatchPool one_window(store, other, 5);
  EXPECT_EQ(ReadEpoch(one_window, 0), first);
  EXPECT_EQ(ReadEpoch(one_window, 1), second);
  other.distribution = Distribution::kShares;
  EXPECT_EQ(ReadEpoch(MinibatchPool(store, other, 5, 3), 1), second);
  other.chunk_frames = 7;
  other.shuffle_frames = 60;
  for (const bool carry : {false, true}) {
    other.carry_state = carry;
    other.distribution = Distribution::kPool;
    EXPECT_EQ(ReadEpoch(MinibatchPool(store, other, 5), 1), second);
  }
  EXPECT_NE(ReadEpoch(MinibatchPool(store, other, 6), 1), second);
  // In the middle of an epoch, as a resumed run begins.
  MinibatchBuffer fresh, running;
  const MinibatchPool resumed(store, Varied(), 5);
  resumed.Fill(1, 0, 7, fresh);
  pool.Fill(1, 0, 7, running);
  EXPECT_TRUE(std::equal(fresh.minibatch.features.data(),
                         fresh.minibatch.features.data() + fresh.minibatch.features.size(),
                         running.minibatch.features.data()));
}

// By the parts that make a frame, one after another.
TEST_F(LiveStoreTest, VariesTheSoundBeforeTheFrontEnd) {
  live_.store.coding = "uint16";
  const auto store = Live();
  MinibatchOptions options = Varied();
  options.left_context = options.right_context = 0;
  options.augment.noise_kinds = {"pink"};
  options.augment.clean_share = 0.5;
  const FramesById frames = ReadEpoch(MinibatchPool(store, options, 5), 4);
  const feat::FrontEnd front_end(ReadFrontEnd(folder_ / "feats"));
  const feat::Augmenter augmenter(options.augment);
  const RandomAccessReader<DoubleMatrix> cmvn(made_.input.cmvn);
  int clean = 0;
  for (const FrameStore::Utterance& utterance : store->utterances()) {
    if (utterance.utt_id.starts_with("sp")) continue;
    const int i = utterance.utt_id.back() - '0';
    const std::string speaker = utterance.utt_id.substr(0, 3);
    feat::Waveform wave = feat::ReadAudio(folder_ / (speaker + ".wav"),
                                          {.start_s = 0.0412345 + 0.5 * i, .end_s = 0.5 * i + 0.35 + 0.02 * i});
    wave = feat::Resample(wave, 8000);
    Rng rng(MixSeed(5, 4), feat::UtteranceSeed(utterance.utt_id));
    const bool unchanged = rng.Uniform() < 0.5;
    clean += unchanged ? 1 : 0;
    if (!unchanged) wave = augmenter.Apply(wave, rng);
    Matrix expected = front_end.Compute(wave.samples, feat::UtteranceSeed(utterance.utt_id));
    feat::CmvnStats::FromMatrix(cmvn.Get(speaker)).Apply(expected, false);
    for (int32_t t = 0; t < utterance.num_frames; ++t) {
      const std::vector<float>& found = frames.at(utterance.first_frame + t);
      for (int64_t c = 0; c < expected.cols(); ++c) ASSERT_NEAR(found[static_cast<size_t>(c)], expected(t, c), 2e-3);
    }
  }
  EXPECT_GT(clean, 0);
  EXPECT_LT(clean, 10);
}

TEST_F(LiveStoreTest, LeavesRecordingsAsTheyAreWhereAllAreClean) {
  const auto store = Live();
  MinibatchOptions options = Varied();
  const FramesById varied = ReadEpoch(MinibatchPool(store, options, 5), 0);
  options.augment.clean_share = 1;
  const FramesById clean = ReadEpoch(MinibatchPool(store, options, 5), 0);
  options.augment = {};
  EXPECT_EQ(ReadEpoch(MinibatchPool(store, options, 5), 0), clean);
  EXPECT_NE(varied, clean);
}

// Each worker's pool of one process takes what another has made.
TEST_F(LiveStoreTest, MakesOnceForAllWorkersOfAProcess) {
  const auto store = Live();
  const MinibatchOptions options = Varied();
  const auto one = store->live()->Maker(options.augment, 2, 5), same = store->live()->Maker(options.augment, 2, 5);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, store->live()->Maker(options.augment, 2, 6));
  const std::vector<uint32_t> asked = {3, 1};
  const auto first = one->Ask(2, asked), second = same->Ask(2, asked);
  EXPECT_EQ(first, second);
  EXPECT_NE(one->Ask(3, asked), first);
  EXPECT_EQ(one->Frames(first[0]), same->Frames(second[0]));
}

TEST_F(LiveStoreTest, NamesTheRecordingThatFails) {
  const auto store = Live();
  const auto message = [&](const MinibatchOptions& options) -> std::string {
    const auto pool = std::make_shared<const MinibatchPool>(store, options, 5);
    try {
      MinibatchStream stream(pool, 0, 0);
      while (stream.Next() != nullptr) {
      }
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message(Varied()), "nothing was thrown");
  const fs::path wav = folder_ / "ann.wav";
  const std::string bytes = ReadFile(wav);
  const auto changed = fs::last_write_time(wav);
  PutFile(wav, bytes.substr(0, bytes.size() - 100));
  const auto names_it = AllOf(HasSubstr("ann.wav"), HasSubstr("ann-"), HasSubstr("recording 'ann'"));
  EXPECT_THAT(message(Varied()), AllOf(names_it, HasSubstr("bytes, and had")));
  PutFile(wav, bytes);
  fs::last_write_time(wav, changed - std::chrono::seconds(5));
  EXPECT_THAT(message(Varied()), AllOf(names_it, HasSubstr("was changed after the store was made")));
  fs::last_write_time(wav, changed);
  EXPECT_EQ(message(Varied()), "nothing was thrown");
  fs::remove(wav);
  EXPECT_THAT(message({}), AllOf(HasSubstr("there is no audio file"), HasSubstr("ann.wav"), HasSubstr("utterance '")));
}

TEST_F(LiveStoreTest, RefusesAFolderThatIsNotWhatWasWritten) {
  Live();
  for (const char* name : {"wav.scp", "segments", "front_end.toml", "cmvn.ark", "live.toml", "audio_files"}) {
    const fs::path file = folder_ / "live/recordings" / name;
    const std::string bytes = ReadFile(file);
    PutFile(file, bytes + "\n");
    try {
      FrameStore store(folder_ / "live");
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(name), HasSubstr("cut short or changed")));
    }
    PutFile(file, bytes);
  }
  EXPECT_EQ(FrameStore(folder_ / "live").utterances().size(), 20u);
}

TEST_F(LiveStoreTest, LooksAtAllRecordingsWhenItIsMade) {
  live_.length_tolerance = 0;
  EXPECT_THAT(BuildMessage(),
              AllOf(HasSubstr("1 utterances cannot"), HasSubstr("bob-3: "), HasSubstr("an alignment of")));
  live_.input.cmvn = made_.input.cmvn;
  EXPECT_THAT(BuildMessage(), AllOf(HasSubstr("1 utterances cannot"), HasSubstr("bob-3: ")));
  live_.length_tolerance = 2;
  fs::rename(folder_ / "ann.wav", folder_ / "ann.gone");
  EXPECT_THAT(BuildMessage(), AllOf(HasSubstr("10 utterances cannot"), HasSubstr("ann-0: "), HasSubstr("ann.wav")));
  EXPECT_FALSE(fs::exists(folder_ / "live"));
}

TEST_F(LiveStoreTest, SaysWhatItLeavesOut) {
  TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark");
  const RandomAccessReader<Matrix> matrices(made_.input.features);
  const auto write = [&](const std::string& name, const std::string& frames_of) {
    pdfs.Write(name, std::vector<int32_t>(static_cast<size_t>(matrices.Get(frames_of).rows()), 1));
  };
  write("aug1-ann-0", "ann-0");
  write("bob-1", "bob-1");
  write("sp0.9-bob-1", "sp0.9-bob-1");
  pdfs.Close();
  const FrameStoreSummary summary = BuildFrameStore(live_, folder_ / "live", 1);
  EXPECT_EQ(summary.utterances, 2);
  EXPECT_THAT(summary.without_recording, ElementsAre("aug1-ann-0"));
  EXPECT_EQ(summary.without_alignment.size(), 9u);
}

TEST_F(LiveStoreTest, RefusesWhatItCannotDo) {
  const auto with = [&](auto change) {
    const BuildFrameStoreOptions before = live_;
    change(live_);
    const std::string message = BuildMessage();
    live_ = before;
    return message;
  };
  EXPECT_THAT(with([](auto& o) { o.input.features = "feats.scp"; }), HasSubstr("exclude each other"));
  EXPECT_THAT(with([](auto& o) { o.input.unknown_speakers = 0.1; }), HasSubstr("--unknown-speakers"));
  EXPECT_THAT(with([](auto& o) { o.input.utt2spk = "utt2spk"; }), HasSubstr("data directory says who speaks"));
  EXPECT_THAT(with([](auto& o) { o.input.speaker_model = "gmm"; }), HasSubstr("no speaker-adapted features"));
  EXPECT_THAT(with([](auto& o) { o.input.speaker_vectors = "x"; }), HasSubstr("no speaker-adapted features"));
  EXPECT_THAT(with([](auto& o) { o.live.front_end = ""; }), HasSubstr("--live needs --front-end"));
  EXPECT_THAT(with([](auto& o) {
                o.live.normalise = false;
                o.input.norm_vars = true;
              }),
              HasSubstr("--no-normalise leaves no use"));
  EXPECT_THAT(with([](auto& o) { o.live.data = ""; }), HasSubstr("give --features"));
  made_.live.channel = 1;
  EXPECT_THROW(Made(), UsageError);
  made_.live = {};
  try {
    MinibatchPool(Made(), Varied(), 1);
    ADD_FAILURE();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("antiphon store --live"));
  }
  PutFile(folder_ / "data/wav.scp", "ann cat ann.wav |\nbob bob.wav\n");
  EXPECT_THAT(BuildMessage(), AllOf(HasSubstr("wav.scp:1"), HasSubstr("is made by a command ('cat ann.wav ')")));
}

TEST_F(LiveStoreTest, RefusesLateSegmentsOfWhatOnlyFfmpegReads) {
  if (!feat::ForeignSoundIsRead()) GTEST_SKIP() << "ffmpeg is not installed";
  const std::string wav = folder_ / "ann.wav", m4a = folder_ / "ann.m4a";
  ASSERT_EQ(RunProgram({"ffmpeg", "-nostdin", "-v", "error", "-i", wav, "-c:a", "alac", m4a}), 0);
  PutFile(folder_ / "data/wav.scp", "ann ann.m4a\nbob bob.wav\n");
  EXPECT_EQ(BuildMessage(), "nothing was thrown");
  std::string segments = ReadFile(folder_ / "data/segments");
  const size_t line = segments.find("ann-4 ");
  segments.replace(line, segments.find('\n', line) - line, "ann-4 ann 31.5 31.9");
  PutFile(folder_ / "data/segments", segments);
  EXPECT_THAT(BuildMessage(), AllOf(HasSubstr("utterance 'ann-4' begins at 31.5 s of recording 'ann'"),
                                    HasSubstr("ffmpeg -i 'ann.m4a' ann.flac")));
}

}  // namespace
}  // namespace antiphon::data
