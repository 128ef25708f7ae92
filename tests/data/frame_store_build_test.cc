#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/archive.h"
#include "data/frame_store.h"
#include "feat/cmvn.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BuildFrameStoreTest : public ::testing::Test {
 protected:
  BuildFrameStoreTest() {
    TableWriter<Matrix> feats(folder_ / "feats.ark");
    TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark");
    TableWriter<DoubleMatrix> cmvn(folder_ / "cmvn.ark");
    feat::CmvnStats stats(2);
    for (int u = 0; u < 5; ++u) {
      Matrix m(10 + u, 2);
      for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>((7 * i + u) % 13);
      stats.Add(m);
      feats.Write("u" + std::to_string(u), m);
      if (u != 3)
        pdfs.Write("u" + std::to_string(u), std::vector<int32_t>(static_cast<size_t>(10 + u - (u == 2 ? 1 : 0)), u));
    }
    cmvn.Write("s", stats.matrix());
    feats.Close();
    pdfs.Close();
    cmvn.Close();
    PutFile(folder_ / "utt2spk", "u0 s\nu1 s\nu2 s\nu3 s\nu4 s\n");
    options_.input.features = (folder_ / "feats.scp").string();
    options_.input.utt2spk = (folder_ / "utt2spk").string();
    options_.input.cmvn = (folder_ / "cmvn.scp").string();
    options_.input.norm_vars = true;
    options_.pdf_alignment = (folder_ / "pdf.scp").string();
    options_.store.coding = "uint16";
  }
  std::string Message() {
    try {
      BuildFrameStore(options_, folder_ / "store");
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  }
  ::antiphon::testing::TemporaryFolder folder_;
  BuildFrameStoreOptions options_;
};

TEST_F(BuildFrameStoreTest, JoinsNormalisedFeaturesAndAlignment) {
  const FrameStoreSummary summary = BuildFrameStore(options_, folder_ / "store", 2);
  EXPECT_THAT(summary.without_alignment, ElementsAre("u3"));
  EXPECT_EQ(summary.utterances, 4);
  EXPECT_EQ(summary.frames, 10 + 11 + 11 + 14);
  const FrameStore store(folder_ / "store");
  EXPECT_EQ(store.num_pdfs(), 5);
  EXPECT_EQ(store.num_frames(), summary.frames);
  EXPECT_EQ(store.PdfId(2, 10), 2);
  EXPECT_THAT(store.speakers(), ElementsAre("s"));
  Matrix expected = RandomAccessReader<Matrix>(options_.input.features).Get("u1");
  feat::CmvnStats::FromMatrix(RandomAccessReader<DoubleMatrix>(options_.input.cmvn).Get("s")).Apply(expected, true);
  Matrix m(11, 2);
  store.ReadFrames(1, 0, m);
  for (int64_t i = 0; i < m.size(); ++i) EXPECT_NEAR(m.data()[i], expected.data()[i], 1e-4);
}

// A script that lacks lines, and an archive whose bytes are others, still read well.
// What would change nothing, or leave half of it known.
TEST_F(BuildFrameStoreTest, TakesSpeakersForUnknownWhereSomethingIsKnown) {
  options_.input.unknown_speakers = 0.5;
  EXPECT_EQ(BuildFrameStore(options_, folder_ / "store").utterances, 4);
  options_.input.speaker_vectors = (folder_ / "ivectors.scp").string();
  EXPECT_THAT(Message(), HasSubstr("not --speaker-vectors"));
  options_.input.speaker_vectors.clear();
  options_.input.cmvn.clear();
  EXPECT_THAT(Message(), HasSubstr("nothing else is known of speakers"));
}

TEST_F(BuildFrameStoreTest, RefusesAnAlignmentThatIsNotWhatWasWritten) {
  TableWriter<std::vector<int32_t>> pdfs(folder_ / "pdf.ark", {.checksums = true});
  for (int u = 0; u < 5; ++u) pdfs.Write("u" + std::to_string(u), std::vector<int32_t>(static_cast<size_t>(10 + u), u));
  pdfs.Close();
  EXPECT_EQ(BuildFrameStore(options_, folder_ / "store", 2).utterances, 5);
  const std::string ark = ReadFile(folder_ / "pdf.ark"), scp = ReadFile(folder_ / "pdf.scp");
  PutFile(folder_ / "pdf.scp", scp.substr(0, scp.find('\n') + 1));
  EXPECT_THAT(Message(), AllOf(HasSubstr("pdf.scp' is not what"), HasSubstr("cut short or changed")));
  PutFile(folder_ / "pdf.scp", scp);
  std::string changed = ark;
  changed[changed.size() - 4] ^= 1;
  PutFile(folder_ / "pdf.ark", changed);
  EXPECT_THAT(Message(), HasSubstr("pdf.ark' is not what"));
  options_.pdf_alignment = "ark:" + (folder_ / "pdf.ark").string();
  EXPECT_THAT(Message(), HasSubstr("pdf.ark' is not what"));
  // Of others, and of earlier versions, there are none; nor do old ones speak of a new table.
  std::filesystem::remove(folder_ / "pdf.checksums.json");
  EXPECT_EQ(Message(), "nothing was thrown");
  PutFile(folder_ / "pdf.checksums.json", "{\"pdf.ark\": \"0\"}");
  TableWriter<std::vector<int32_t>> again(folder_ / "pdf.ark");
  again.Write("u0", std::vector<int32_t>(10, 0));
  again.Close();
  EXPECT_EQ(Message(), "nothing was thrown");
}

TEST_F(BuildFrameStoreTest, NamesWhatDoesNotFit) {
  options_.length_tolerance = 0;
  EXPECT_THAT(Message(), AllOf(HasSubstr("utterance 'u2'"), HasSubstr("12 frames of features but an alignment of 11")));
  options_.length_tolerance = 2;
  options_.num_pdfs = 4;
  EXPECT_THAT(Message(), AllOf(HasSubstr("utterance 'u4'"), HasSubstr("pdf-id 4; expected 0 … 3")));
  options_.num_pdfs = 0;
  PutFile(folder_ / "utt2spk", "u0 other\nu1 s\nu2 s\nu3 s\n");
  EXPECT_THAT(Message(), AllOf(HasSubstr("utterance 'u0'"), HasSubstr("statistics neither for speaker 'other'")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "store"));
}

}  // namespace
}  // namespace antiphon::data
