#include "data/frame_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "data/frame_store_format.h"
#include "put_file.h"
#include "sanitized.h"
#include "store_fixture.h"

namespace antiphon::data {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <class F>
std::string MessageOf(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

class FrameStoreTest : public ::testing::Test {
 protected:
  ::antiphon::testing::TemporaryFolder folder_;
};

TEST_F(FrameStoreTest, GivesBackFeaturesAndPdfIds) {
  for (const std::string coding : {"uint8", "uint16"}) {
    for (const int num_pdfs : {30, 100000}) {
      const StoreContent content = MakeStore(folder_ / "store", 40, 5, num_pdfs, {.coding = coding, .shard_mib = 1});
      const FrameStore store(folder_ / "store");
      ASSERT_EQ(store.utterances().size(), 40u);
      EXPECT_EQ(store.speakers().size(), 7u);
      EXPECT_EQ(store.description(), "made for a test");
      int64_t frames = 0;
      for (size_t u = 0; u < 40; ++u) {
        const Matrix& expected = content.features[u];
        EXPECT_EQ(store.utterances()[u].first_frame, frames);
        frames += expected.rows();
        Matrix m(expected.rows(), 5);
        store.ReadFrames(u, 0, m);
        for (int64_t c = 0; c < 5; ++c) {
          float low = expected(0, c);
          float high = low;
          for (int64_t t = 0; t < m.rows(); ++t) {
            low = std::min(low, expected(t, c));
            high = std::max(high, expected(t, c));
          }
          const float half_step = 0.501f * (high - low) / (coding == "uint8" ? 255.0f : 65535.0f) + 1e-5f;
          for (int64_t t = 0; t < m.rows(); ++t) ASSERT_NEAR(m(t, c), expected(t, c), half_step);
        }
        std::vector<int32_t> pdfs(content.pdfs[u].size());
        store.ReadPdfIds(u, pdfs);
        EXPECT_EQ(pdfs, content.pdfs[u]);
        EXPECT_EQ(store.PdfId(u, static_cast<int>(pdfs.size()) - 1), pdfs.back());
      }
      EXPECT_EQ(store.num_frames(), frames);
    }
  }
}

TEST_F(FrameStoreTest, SplicesWithRepeatedEdges) {
  MakeStore(folder_ / "store", 20, 3, 30, {.coding = "uint16"});
  const FrameStore store(folder_ / "store");
  for (size_t u = 0; u < 20; ++u) {
    const int n = store.utterances()[u].num_frames;
    for (const Context context : {Context{0, 0}, Context{2, 3}, Context{7, 0}, Context{100, 100}}) {
      std::vector<float> spliced(static_cast<size_t>(3 * context.width()));
      for (int t = 0; t < n; ++t) {
        store.ReadSpliced(u, t, context, spliced.data());
        for (int k = 0; k < context.width(); ++k) {
          Matrix row(1, 3);
          store.ReadFrames(u, std::clamp(t - context.left + k, 0, n - 1), row);
          for (int c = 0; c < 3; ++c)
            ASSERT_EQ(spliced[static_cast<size_t>(3 * k + c)], row(0, c)) << "frame " << t << " + " << k;
        }
      }
    }
  }
}

TEST_F(FrameStoreTest, CountsPdfsAndMoments) {
  const StoreContent content = MakeStore(folder_ / "store", 30, 4, 10, {.coding = "uint16"});
  const FrameStore store(folder_ / "store");
  std::vector<int64_t> counts(10, 0);
  for (const auto& pdfs : content.pdfs) {
    for (const int32_t pdf : pdfs) ++counts[static_cast<size_t>(pdf)];
  }
  EXPECT_EQ(store.CountPdfs(), counts);
  const std::vector<size_t> some = {2, 5};
  EXPECT_EQ(store.CountFrames(some), store.utterances()[2].num_frames + store.utterances()[5].num_frames);
  EXPECT_EQ(store.CountFrames({}), 0);
  const FeatureMoments one = EstimateMoments(store, {}, 1 << 30, 1);
  const FeatureMoments three = EstimateMoments(store, {}, 1 << 30, 3);
  EXPECT_EQ(one.mean, three.mean);
  EXPECT_EQ(one.inv_stddev, three.inv_stddev);
  double sum = 0.0, squares = 0.0, n = 0.0;
  for (const Matrix& m : content.features) {
    for (int64_t t = 0; t < m.rows(); ++t) {
      sum += m(t, 2);
      squares += m(t, 2) * m(t, 2);
      ++n;
    }
  }
  EXPECT_NEAR(one.mean[2], sum / n, 1e-3);
  EXPECT_NEAR(one.inv_stddev[2], 1.0 / std::sqrt(squares / n - sum / n * (sum / n)), 1e-4);
}

TEST_F(FrameStoreTest, IsThereOnlyWhenFinished) {
  {
    FrameStoreWriter writer(folder_ / "store", 2, 3);
    writer.Add("a", "s", Matrix(4, 2), std::vector<int32_t>(4, 1));
    EXPECT_THAT(MessageOf([&] { FrameStore store(folder_ / "store"); }), HasSubstr("no frame store"));
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  MakeStore(folder_ / "store", 3);
  const uint64_t before = FrameStore(folder_ / "store").fingerprint();
  { FrameStoreWriter writer(folder_ / "store", 2, 3); }
  EXPECT_EQ(FrameStore(folder_ / "store").fingerprint(), before);
  MakeStore(folder_ / "store/", 4);
  EXPECT_EQ(FrameStore(folder_ / "store/").utterances().size(), 4u);
  PutFile(folder_ / "other/thing", "precious");
  EXPECT_THAT(MessageOf([&] { FrameStoreWriter writer(folder_ / "other", 2, 3); }), HasSubstr("is no frame store"));
}

TEST_F(FrameStoreTest, IsWholeForReadersWhileItIsReplaced) {
  const auto utterances = [](int round) { return 3 + 5 * (round % 2); };
  MakeStore(folder_ / "store", utterances(0));
  std::atomic<bool> done = false;
  std::atomic<int> opened = 0;
  std::string error;
  std::thread reader([&] {
    try {
      while (!done) {
        const FrameStore store(folder_ / "store");
        const size_t n = store.utterances().size();
        if (n != 3 && n != 8) throw InputError("a store of " + std::to_string(n) + " utterances");
        for (size_t u = 0; u < n; ++u) store.Verify(u);
        ++opened;
      }
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  for (int round = 1; round < 40 || opened < 20; ++round) {
    MakeStore(folder_ / "store", utterances(round));
    if (!error.empty()) break;
  }
  done = true;
  reader.join();
  EXPECT_EQ(error, "");
}

TEST_F(FrameStoreTest, IsFoundWhereAKilledReplacementLeftIt) {
  MakeStore(folder_ / "store", 3);
  const uint64_t fingerprint = FrameStore(folder_ / "store").fingerprint();
  fs::rename(folder_ / "store", internal::OldStore(folder_ / "store"));
  EXPECT_EQ(FrameStore(folder_ / "store").fingerprint(), fingerprint);
  // The next writer puts it back, and leaves nothing aside when it is done.
  {
    const FrameStoreWriter writer(folder_ / "store", 5, 30);
    EXPECT_TRUE(fs::exists(folder_ / "store/store.json"));
  }
  EXPECT_EQ(FrameStore(folder_ / "store").fingerprint(), fingerprint);
  MakeStore(folder_ / "store", 4);
  EXPECT_EQ(FrameStore(folder_ / "store").utterances().size(), 4u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(FrameStoreTest, RefusesBadUtterances) {
  FrameStoreWriter writer(folder_ / "store", 2, 3);
  Matrix m(2, 2);
  const std::vector<int32_t> pdfs = {0, 2};
  writer.Add("a", "s", m, pdfs);
  EXPECT_THAT(MessageOf([&] { writer.Add("a", "s", m, pdfs); }), AllOf(HasSubstr("utterance 'a'"), HasSubstr("twice")));
  EXPECT_THAT(MessageOf([&] { writer.Add("b", "s", m, std::vector<int32_t>{0}); }),
              HasSubstr("2 frames but 1 pdf-ids"));
  EXPECT_THAT(MessageOf([&] {
                writer.Add("b", "s", m, std::vector<int32_t>{0, 3});
              }),
              HasSubstr("pdf-id 3; expected 0 … 2"));
  EXPECT_THAT(MessageOf([&] { writer.Add("b", "s", Matrix(2, 3), pdfs); }),
              HasSubstr("features of 3 columns, the store has 2"));
  EXPECT_THAT(MessageOf([&] { writer.Add("b", "s", Matrix(0, 2), {}); }), HasSubstr("at least one"));
  m(1, 1) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(MessageOf([&] { writer.Add("b", "s", m, pdfs); }), HasSubstr("frame 1, column 1 holds nan"));
}

void ReadAll(const fs::path& folder) {
  const FrameStore store(folder);
  for (size_t u = 0; u < store.utterances().size(); ++u) {
    Matrix m(store.utterances()[u].num_frames, store.feat_dim());
    store.ReadFrames(u, 0, m);
    std::vector<int32_t> pdfs(static_cast<size_t>(m.rows()));
    store.ReadPdfIds(u, pdfs);
    for (const int32_t pdf : pdfs) ASSERT_LT(pdf, store.num_pdfs());
  }
}

TEST_F(FrameStoreTest, RefusesEveryChangedByteAndEveryCut) {
  MakeStore(folder_ / "store", 6, 3, 30, {}, 20);
  ReadAll(folder_ / "store");
  for (const std::string name : {"store.json", "index.bin", "shard-00000.frames"}) {
    const std::string whole = ReadFile(folder_ / ("store/" + name));
    EXPECT_TRUE(rc::check(name, [&] {
      std::string bytes = whole;
      // Padding between utterances means nothing, so only the first one's bytes are changed in the shard.
      const size_t limit = name.starts_with("shard") ? 30 : bytes.size();
      const auto at = *rc::gen::inRange<size_t>(0, limit);
      const char change = *rc::gen::nonZero<char>();
      if (*rc::gen::arbitrary<bool>()) {
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        if (name == "store.json" && std::isspace(static_cast<unsigned char>(bytes[at])) != 0) return;
      } else {
        bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() - 1));
      }
      PutFile(folder_ / ("store/" + name), bytes);
      RC_ASSERT_THROWS_AS(ReadAll(folder_ / "store"), InputError);
    }));
    PutFile(folder_ / ("store/" + name), whole);
  }
  ReadAll(folder_ / "store");
}

int64_t AnonymousKib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return -1;
}

int64_t FileKib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssFile:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return -1;
}

TEST_F(FrameStoreTest, TakesNoMemoryForTheDataItReads) {
  if (FileKib() < 0) GTEST_SKIP() << "this system does not report resident memory by kind";
  if (antiphon::testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory is not ours";
  constexpr int kFrames = 20000;
  {
    FrameStoreWriter writer(folder_ / "store", 40, 10, {.coding = "uint16", .shard_mib = 4});
    Matrix m(kFrames, 40);
    Rng rng(1);
    for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(rng.Uniform());
    for (int u = 0; u < 40; ++u) writer.Add("u" + std::to_string(u), "s", m, std::vector<int32_t>(kFrames, 1));
    writer.Finish();
  }
  const FrameStore store(folder_ / "store");  // 64 MB of codes
  const int64_t anonymous = AnonymousKib();
  const int64_t file = FileKib();
  Matrix m(1000, 40);
  int64_t largest_file = 0;
  for (size_t u = 0; u < 40; ++u) {
    for (int t = 0; t < kFrames; t += 1000) store.ReadFrames(u, t, m);
    largest_file = std::max(largest_file, FileKib() - file);
    store.ReleasePages();
  }
  EXPECT_LT(AnonymousKib() - anonymous, 2048);
  EXPECT_LT(largest_file, 16 * 1024);
  EXPECT_LT(FileKib() - file, 2048);
}

}  // namespace
}  // namespace antiphon::data
