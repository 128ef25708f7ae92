#include "base/toml_text.h"

#include <gtest/gtest.h>

#include "base/config.h"

namespace antiphon {
namespace {

TEST(TomlString, IsReadAsItWas) {
  for (const std::string text :
       {"", "plain", "it's", "say \"yes\"", "back\\slash", "line\nbreak\tand\x01more", "ü 語"}) {
    Config config;
    config.Set("key", TomlString(text));
    EXPECT_EQ(config.Text("key"), text);
  }
}

}  // namespace
}  // namespace antiphon
