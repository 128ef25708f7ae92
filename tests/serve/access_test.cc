#include "serve/access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "serve/form_dialect.h"
#include "serve/limits.h"
#include "temporary_folder.h"

namespace antiphon::serve {
namespace {

AccessOptions WithTokens(const std::string& file) {
  AccessOptions options;
  options.token_file = file;
  return options;
}

TEST(Access, ComparesWholeTokens) {
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  for (const char* wrong : {"", "ab", "abcd", "abd", "xbc", "abcabc"}) {
    EXPECT_FALSE(EqualInConstantTime(wrong, "abc")) << wrong;
    EXPECT_FALSE(EqualInConstantTime("abc", wrong)) << wrong;
  }
}

TEST(Access, TakesTokensOfHeaderAndQuery) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "tokens";
  std::ofstream(file) << "# of two clients\nfirst one\n\nsecond+\r\n";
  const Access access(WithTokens(file.string()));
  EXPECT_TRUE(access.needs_token());
  EXPECT_TRUE(access.TokenRight("Bearer first one", ""));
  EXPECT_TRUE(access.TokenRight("", "model=x&token=second%2B"));
  EXPECT_FALSE(access.TokenRight("", ""));
  EXPECT_FALSE(access.TokenRight("first one", ""));
  EXPECT_FALSE(access.TokenRight("Bearer first", "token=second%2B")) << "the header counts";
  EXPECT_FALSE(access.TokenRight("", "atoken=second%2B"));
  std::ofstream(file) << "# none\n";
  EXPECT_THROW(Access(WithTokens(file.string())), UsageError);
}

TEST(Access, KnowsPagesOfItsOwn) {
  AccessOptions options;
  options.origins = {"https://example.org"};
  const Access access(options);
  EXPECT_TRUE(access.OriginAllowed("", "localhost:2700"));
  EXPECT_TRUE(access.OriginAllowed("http://localhost:2700", "localhost:2700"));
  EXPECT_TRUE(access.OriginAllowed("https://example.org", "localhost:2700"));
  for (const char* other : {"https://example.org.evil.net", "http://localhost", "null", "http://localhost:2701"}) {
    EXPECT_FALSE(access.OriginAllowed(other, "localhost:2700")) << other;
  }
}

TEST(Access, KnowsItsOwnNames) {
  AccessOptions options;
  options.hosts = {"speech.example.org"};
  const Access access(options);
  for (const char* own : {"localhost", "localhost:2700", "127.0.0.1:2700", "[::1]:2700", "speech.example.org:443"}) {
    EXPECT_TRUE(access.HostAllowed(own)) << own;
  }
  for (const char* other : {"evil.net", "localhost.evil.net:2700", "127.0.0.1.evil.net"}) {
    EXPECT_FALSE(access.HostAllowed(other)) << other;
  }
}

TEST(Access, DecodesQueries) {
  EXPECT_EQ(QueryValue("a=1&b=x%20y+z&c", "b"), "x y z");
  EXPECT_EQ(QueryValue("a=1&b=x%2", "b"), "x%2");
  EXPECT_EQ(QueryValue("b=%2B%-1", "b"), "+%-1");
  EXPECT_EQ(QueryValue("a=1", "b"), "");
  EXPECT_EQ(QueryValue("", "b"), "");
}

TEST(Access, DecodesPaths) { EXPECT_EQ(PercentDecoded("my%20model+%C3%A4%"), "my model+\u00e4%"); }

TEST(RateLimit, LetsBurstsThroughAndThenSoManyASecond) {
  RateLimit limit(10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.Take(100.0), 0.0);
  EXPECT_NEAR(limit.Take(100.0), 0.1, 1e-9);
  EXPECT_NEAR(limit.Take(100.0), 0.2, 1e-9);
  EXPECT_EQ(limit.Take(101.0), 0.0);
}

TEST(Prompt, IsSplitIntoPhrases) {
  const auto hotwords = HotwordsOf(" Antiphon, two words;; x\n,");
  ASSERT_EQ(hotwords.size(), 3U);
  EXPECT_EQ(hotwords[0].phrase, "Antiphon");
  EXPECT_EQ(hotwords[1].phrase, "two words");
  EXPECT_EQ(hotwords[2].phrase, "x");
}

}  // namespace
}  // namespace antiphon::serve
