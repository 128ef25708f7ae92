#include "pipeline/aligned_pronunciations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPhones =
    "u1 1 0.000 0.160 SIL\nu1 1 0.160 0.060 T\nu1 1 0.220 0.043 UW\nu1 1 0.263 0.100 EY\nu1 1 0.363 0.5 SIL\n"
    "u2 1 0.000 0.300 SIL\nu3 1 0.010 0.300 AH\n";
constexpr const char* kWords = "u1 1 0.160 0.103 TO\nu1 1 0.263 0.100 A\nu3 1 0.010 0.300 A\n";

class AlignedPronunciations : public ::testing::Test {
 protected:
  std::vector<hmm::SpokenWords> Read(const std::string& phones, const std::string& words) {
    WriteFileAtomically(folder_ / "phones.ctm", phones);
    WriteFileAtomically(folder_ / "words.ctm", words);
    return ReadAlignedPronunciations(folder_.path(), lexicon_);
  }
  std::string ErrorOf(const std::string& phones, const std::string& words) {
    try {
      Read(phones, words);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  const testing::TemporaryFolder folder_;
  hmm::Lexicon lexicon_ = hmm::Lexicon::Parse("A AH\nA EY\nTO T UW\n", "lexicon.txt");
};

std::string With(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(AlignedPronunciations, FindsEntriesAndPauses) {
  const auto said = Read(kPhones, kWords);
  ASSERT_EQ(said.size(), 2U) << "u2 has no words";
  EXPECT_EQ(said[0].entries, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(said[0].pauses, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(said[1].entries, (std::vector<int32_t>{0}));
  EXPECT_EQ(said[1].pauses, (std::vector<bool>{false, false}));
}

TEST_F(AlignedPronunciations, LeavesOutWhatIsNotInItsText) {
  const auto said = Read(kPhones, kWords);
  const auto fewer = Read(With(kPhones, "0.363 0.5 SIL", "0.363 0.5 <unaligned>"), kWords);
  ASSERT_EQ(said.size(), 2U);
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_EQ(fewer[0].entries, said[1].entries);
}

TEST_F(AlignedPronunciations, TakesPhonesWithPositions) {
  std::string phones = kPhones;
  for (const auto& [plain, positioned] :
       {std::pair(" T\n", " T_B\n"), {" UW\n", " UW_E\n"}, {" EY\n", " EY_S\n"}, {" AH\n", " AH_S\n"}}) {
    phones = With(phones, plain, positioned);
  }
  EXPECT_EQ(Read(phones, kWords)[0].entries, (std::vector<int32_t>{2, 1}));
  hmm::LexiconOptions options;
  options.position_dependent = true;
  lexicon_ = hmm::Lexicon::Parse("A AH\nA EY\nTO T UW\n", "lexicon.txt", options);
  EXPECT_EQ(Read(phones, kWords)[0].entries, (std::vector<int32_t>{2, 1}));
}

TEST_F(AlignedPronunciations, NamesWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf(kPhones, With(kWords, "TO", "TWO")), HasSubstr("words.ctm:1: the word 'TWO' is not in"));
  EXPECT_THAT(ErrorOf(With(kPhones, "UW", "EY"), kWords), HasSubstr("words.ctm:1: 'TO' was said as 'T EY'"));
  EXPECT_THAT(ErrorOf(With(kPhones, "UW", "OW"), kWords), HasSubstr("phones.ctm:3: the lexicon has no phone 'OW'"));
  EXPECT_THAT(ErrorOf(With(kPhones, "SIL", "AH"), kWords), HasSubstr("phones.ctm:1: the phone 'AH' is in no word"));
  EXPECT_THAT(ErrorOf(With(kPhones, "0.160 0.060", "0.160"), kWords), HasSubstr("phones.ctm:2: expected UTTERANCE"));
  EXPECT_THAT(ErrorOf(With(kPhones, "u3", "u4"), kWords), HasSubstr("words.ctm:3: utterance 'u3' is not in"));
  EXPECT_THAT(ErrorOf(With(kPhones, "0.220", "0.120"), kWords), HasSubstr("phones.ctm:3: it begins before"));
  EXPECT_THAT(ErrorOf(kPhones, ""), HasSubstr("there are no words"));
}

TEST_F(AlignedPronunciations, ComesBackFromItsFolder) {
  const hmm::PronunciationModel model = hmm::EstimatePronunciations(lexicon_, Read(kPhones, kWords));
  WritePronunciations(model, lexicon_, folder_ / "out");
  const hmm::PronunciationModel again = ReadPronunciations(folder_ / "out", lexicon_);
  EXPECT_EQ(hmm::EntriesToText(again, lexicon_), hmm::EntriesToText(model, lexicon_));
  EXPECT_EQ(hmm::PausesToText(again), hmm::PausesToText(model));
  const auto alone = hmm::Lexicon::Load(folder_ / "out/lexiconp.txt");
  ASSERT_EQ(alone.entries().size(), lexicon_.entries().size());
  for (size_t e = 0; e < alone.entries().size(); ++e) {
    EXPECT_NEAR(std::exp(-alone.entries()[e].cost), model.entries[e].probability, 1e-5);
  }
}

}  // namespace
}  // namespace antiphon::pipeline
