#include "base/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

TEST(Gzip, UnpacksWhatItPacks) {
  const testing::TemporaryFolder folder;
  const std::string text(3000000, 'x');
  for (const GzipEffort effort : {GzipEffort::kQuick, GzipEffort::kSmall}) {
    WriteFileAtomically(folder / "a.gz", Gzip(text, effort) + Gzip("", effort) + Gzip("end", effort));
    EXPECT_EQ(ReadMaybeGzipped(folder / "a.gz"), text + "end");
  }
  WriteFileAtomically(folder / "plain", "text");
  EXPECT_EQ(ReadMaybeGzipped(folder / "plain"), "text");
}

TEST(Gzip, NamesAFileThatIsCutOrBroken) {
  const testing::TemporaryFolder folder;
  const std::string whole = Gzip("a text that is packed", GzipEffort::kSmall);
  std::string broken = whole;
  broken[12] ^= 0x55;
  for (const std::string& bytes : {whole.substr(0, whole.size() - 3), broken}) {
    WriteFileAtomically(folder / "a.gz", bytes);
    try {
      ReadMaybeGzipped(folder / "a.gz");
      FAIL() << "broken data were unpacked";
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr((folder / "a.gz").string()));
    }
  }
}

// A size that a header claims can be held against this before it is believed.
TEST(Gunzip, BoundsWhatCanStillCome) {
  const std::string packed = Gzip(std::string(5000000, 'x'), GzipEffort::kSmall);
  Gunzip unpacked(std::as_bytes(std::span(packed)));
  std::string piece(1000000, 0);
  for (uint64_t left = 5000000; left > 0; left -= 1000000) {
    EXPECT_GE(unpacked.BytesLeftAtMost(), left);
    ASSERT_EQ(unpacked.Read(piece), piece.size());
  }
  EXPECT_EQ(unpacked.Read(piece), 0U);
}

}  // namespace
}  // namespace antiphon
