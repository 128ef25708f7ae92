#include "chain/chain_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/file_checksums.h"
#include "temporary_folder.h"
#include "toy_chain.h"

namespace antiphon::chain {
namespace {

using ::testing::HasSubstr;

std::string WhyNot(const std::filesystem::path& folder) {
  try {
    ChainData::Load(folder);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ChainData, ComesBackFromItsFolder) {
  const ChainData data = testing::ToyData();
  const antiphon::testing::TemporaryFolder folder;
  data.Save(folder.path());
  const ChainData loaded = ChainData::Load(folder.path());
  EXPECT_EQ(loaded.model, data.model);
  EXPECT_EQ(loaded.step, 3);
  EXPECT_TRUE(std::ranges::equal(loaded.denominator.arcs(), data.denominator.arcs()));
  ASSERT_EQ(loaded.references.size(), data.references.size());
  for (size_t i = 0; i < data.references.size(); ++i) {
    EXPECT_EQ(loaded.references.Id(i), data.references.Id(i));
    EXPECT_EQ(loaded.references[i], data.references[i]);
    EXPECT_EQ(loaded.references.Find(data.references.Id(i)), i);
  }
  EXPECT_FALSE(loaded.references.Find("utt").has_value());
  EXPECT_FALSE(loaded.references.Find("zzz").has_value());
}

TEST(ChainData, IsRefusedUnlessItIsWhole) {
  const antiphon::testing::TemporaryFolder folder;
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("antiphon chain"));
  testing::ToyData().Save(folder.path());
  EXPECT_EQ(WhyNot(folder.path()), "");
  const std::string good = ReadFile(folder / "chain.json");
  WriteFileAtomically(folder / "chain.json", R"({"format": "antiphon-chain-1", "model_structure": "0"})");
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("another model"));
  WriteFileAtomically(folder / "chain.json", "{}");
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("chain.json"));
  WriteFileAtomically(folder / "chain.json", good);
  std::filesystem::copy_file(folder / "model.safetensors", folder / "denominator.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("no denominator graph"));
}

TEST(ChainData, IsWholeOnlyWithItsLastFile) {
  const antiphon::testing::TemporaryFolder folder;
  const ChainData data = testing::ToyData();
  data.Save(folder.path());
  // Where this cannot be written, what was there before is whole no longer.
  std::filesystem::remove(folder / "pdf.ark");
  std::filesystem::create_directories(folder / "pdf.ark" / "in the way");
  EXPECT_THROW(data.Save(folder.path()), Error);
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("interrupted"));
}

// Another phone, or half of the utterances, reads as well.
TEST(ChainData, IsRefusedUnlessItsTablesAreAsWritten) {
  const antiphon::testing::TemporaryFolder folder;
  const ChainData data = testing::ToyData();
  data.Save(folder.path());
  std::string phones = ReadFile(folder / "phones.ark");
  // Binary: the id, a blank, "\0B", then each value behind its size.
  char& phone = phones[phones.find('\0') + 2 + 5 + 1];
  phone = phone == 1 ? 2 : 1;
  WriteFileAtomically(folder / "phones.ark", phones);
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("phones.ark' is not what"));

  const std::string script = (folder / "pdf.scp").string(), lines = ReadFile(script);
  EXPECT_NO_THROW(data::RequireTableAsWritten(script));
  WriteFileAtomically(script, lines.substr(0, lines.find('\n') + 1));
  EXPECT_THROW(data::RequireTableAsWritten(script), InputError);
}

TEST(ChainData, NamesUtterancesThatCannotBeLearnedFrom) {
  ChainData data = testing::ToyData();
  std::map<std::string, Reference> references;
  references["good"] = testing::TimedReference({1, 2, 3, 4, 1}, 0);
  references["one-phone"] = testing::TimedReference({1}, 0);
  references["unsaid"] = testing::TimedReference({1, 4, 4, 1}, 0);
  references["dense"] = {{1, 2, 3, 4, 1}, {1, 2, 3, 4, 5}};
  references["empty"] = {};
  data.references = References(std::move(references));
  const auto unusable = FindUnusable(data, {}, 2);
  ASSERT_EQ(unusable.size(), 3U);
  EXPECT_EQ(unusable[0].first, "dense");
  EXPECT_THAT(unusable[0].second, HasSubstr("too close together"));
  EXPECT_EQ(unusable[1].first, "empty");
  EXPECT_EQ(unusable[2].first, "unsaid");
  EXPECT_THAT(unusable[2].second, HasSubstr("as nowhere"));
}

}  // namespace
}  // namespace antiphon::chain
