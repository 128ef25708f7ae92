#include "base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/option_recorder.h"
#include "base/toml_text.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

struct InnerOptions {
  double momentum = 0.5;
  template <class V>
  void Visit(V& v) {
    v("momentum", momentum, Range{0.0, 0.999}, "weight of the last step");
  }
};

struct SampleOptions {
  int sync_period = 8;
  std::string kind = "relu";
  std::vector<double> rates = {0.1, 0.2};
  InnerOptions inner;
  template <class V>
  void Visit(V& v) {
    v("sync-period", sync_period, Range{1, 1 << 20}, "steps between syncs");
    v("kind", kind, OneOf{{"relu", "sigmoid"}}, "activation");
    v("rates", rates, "learning rates");
    v.Group("inner", inner);
  }
};

std::string MessageOf(std::string_view toml) {
  try {
    ReadOptions<SampleOptions>(Config::Parse(toml, "recipe.toml"));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Options, AreReadFromATable) {
  const auto o = ReadOptions<SampleOptions>(
      Config::Parse("sync-period = 3\nkind = 'sigmoid'\nrates = [1, 0.5]\n[inner]\nmomentum = 0.25\n", "recipe.toml"));
  EXPECT_EQ(o.sync_period, 3);
  EXPECT_EQ(o.kind, "sigmoid");
  EXPECT_EQ(o.rates, (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(o.inner.momentum, 0.25);
}

TEST(Options, NameTheNearestKnownKeyAndTheLine) {
  EXPECT_THAT(MessageOf("kind = 'relu'\nsync-perod = 3\n"), HasSubstr("recipe.toml:2"));
  EXPECT_THAT(MessageOf("sync-perod = 3\n"), HasSubstr("did you mean 'sync-period'?"));
  EXPECT_THAT(MessageOf("[inner]\nmomentun = 0.1\n"), HasSubstr("did you mean 'momentum'?"));
}

TEST(Options, RefuseWrongTypesAndValues) {
  EXPECT_THAT(MessageOf("sync-period = 0\n"), HasSubstr("must be 1 … 1048576"));
  EXPECT_THAT(MessageOf("sync-period = 'x'\n"), HasSubstr("must be a whole number"));
  EXPECT_THAT(MessageOf("sync-period = 99999999999\n"), HasSubstr("sync-period"));
  EXPECT_THAT(MessageOf("kind = 'rellu'\n"), HasSubstr("did you mean 'relu'?"));
  EXPECT_THAT(MessageOf("rates = [1, 'x']\n"), HasSubstr("must be numbers"));
  EXPECT_THAT(MessageOf("inner = 3\n"), HasSubstr("must be a table"));
}

TEST(Options, SurviveTheirOwnPrinting) {
  SampleOptions o;
  o.kind = "sigmoid";
  o.rates = {1e-5, 3};
  o.inner.momentum = 0.125;
  const auto again = ReadOptions<SampleOptions>(Config::Parse(OptionsToConfig(o).ToToml(), "printed"));
  EXPECT_EQ(again.kind, o.kind);
  EXPECT_EQ(again.rates, o.rates);
  EXPECT_EQ(again.inner.momentum, o.inner.momentum);
}

TEST(Options, ARecorderDescribesWhatIsReadAndKnowsWhetherAllOfItWas) {
  OptionRecorder recorder;
  EXPECT_FALSE(recorder.complete());
  ReadOptions<SampleOptions>(Config::Parse("sync-period = 3\n", "recipe.toml"));
  ASSERT_EQ(recorder.structs().size(), 1u);
  const auto& options = recorder.structs().front();
  ASSERT_EQ(options.size(), 4u);
  EXPECT_EQ(options[0].default_value, "8") << "the default, not what the table says";
  EXPECT_EQ(options[3].name, "inner.momentum");
  EXPECT_TRUE(recorder.complete());
  {
    const OptionRecorder inner;
    ReadOptions<InnerOptions>(Config());
    EXPECT_EQ(inner.structs().size(), 1u);
  }
  EXPECT_EQ(recorder.structs().size(), 1u);
  EXPECT_THROW(ReadOptions<InnerOptions>(Config::Parse("momentun = 0\n", "recipe.toml")), UsageError);
  EXPECT_FALSE(recorder.complete());
}

TEST(Config, RefusesLettersOutsideStringsThatAreNoKeys) {
  EXPECT_EQ(Config::Parse("'größe' = 'ß'\n", "recipe.toml").Text("größe"), "ß");
  EXPECT_THROW(Config::Parse("a = 1 \u00de\n", "recipe.toml"), UsageError);
  EXPECT_THROW(Config::Parse("a \u00de = 1\n", "recipe.toml"), UsageError);
}

TEST(Config, FlagsSetValuesOverTheFile) {
  Config config = Config::Parse("sync-period = 3\n", "recipe.toml");
  config.SetFromFlag("sync-period=5");
  config.SetFromFlag("inner.momentum=0.75");
  config.SetFromFlag("kind=sigmoid");
  const auto o = ReadOptions<SampleOptions>(config);
  EXPECT_EQ(o.sync_period, 5);
  EXPECT_EQ(o.inner.momentum, 0.75);
  EXPECT_EQ(o.kind, "sigmoid");
  EXPECT_THROW(config.SetFromFlag("novalue"), UsageError);
  EXPECT_THROW(config.Set("sync-period", "6\nkind = 'tanh'"), UsageError) << "more than a value";
  EXPECT_THROW(config.Set("kind", "\"caf\xe9\""), UsageError) << "not UTF-8";
  EXPECT_EQ(ReadOptions<SampleOptions>(config).sync_period, 5);
}

TEST(Config, PrintsItselfAsATableOfALargerFile) {
  Config config = Config::Parse("method = \"ssgd\"\n", "a");
  config.Set("codec.type", "one-bit");
  const Config file = Config::Parse("seed = 3\n" + TomlAsTable("parallel", config.ToToml()), "b");
  EXPECT_EQ(file.Table("parallel").RequiredText("method"), "ssgd");
  EXPECT_EQ(file.Table("parallel").Table("codec").RequiredText("type"), "one-bit");
  EXPECT_EQ(file.Keys().size(), 2u);
}

TEST(TomlText, ValuesReadAsPeopleWroteThem) {
  const Config config = Config::Parse(
      "rate = 0.4\nsmall = 1e-9\nwhole = 3.0\nbig = 1e300\nno = -0.015\ncount = 7\n"
      "speeds = [0.9, 1.1]\nnames = ['a b', \"it's\"]\nname = 'a'\n[[layer]]\ntype = 'affine'\ndim = "
      "3\n[[layer]]\ntype = 'relu'\n",
      "text");
  EXPECT_EQ(ValueAsToml(config, "rate"), "0.4");
  EXPECT_EQ(ValueAsToml(config, "whole"), "3.0");
  EXPECT_EQ(ValueAsToml(config, "no"), "-0.015");
  EXPECT_EQ(ValueAsToml(config, "count"), "7");
  EXPECT_EQ(ValueAsToml(config, "speeds"), "[ 0.9, 1.1 ]");
  EXPECT_EQ(*config.AnyAsText("rate"), "0.4");
  EXPECT_EQ(*config.AnyAsText("speeds"), "0.9 1.1");
  EXPECT_EQ(ValueAsToml(config, "name"), "a");
  Config layers;
  layers.Set("layer", ValueAsToml(config, "layer"));
  EXPECT_EQ(layers.Tables("layer").size(), 2u);
  EXPECT_EQ(*layers.Tables("layer")[0].Int("dim"), 3);
  for (const char* key : {"rate", "small", "whole", "big", "no", "count", "speeds", "names"}) {
    Config again;
    again.Set("x", ValueAsToml(config, key));
    EXPECT_EQ(*again.AnyAsText("x"), *config.AnyAsText(key)) << key;
  }
}

}  // namespace
}  // namespace antiphon
