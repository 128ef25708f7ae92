#include "score/wer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/random.h"
#include "oracle.h"

namespace antiphon::score {
namespace {

using ::testing::HasSubstr;

Transcripts Text(std::string_view text, std::string source = "text") {
  return ParseTranscripts(text, TranscriptFormat::kText, std::move(source));
}

template <class F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Transcripts, ReadKaldiTextAndCtm) {
  const Transcripts text = Text("u1 a b\nu2\n\nu3\tc  d \r\n");
  EXPECT_EQ(text.words.at("u1"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(text.words.at("u2").empty());
  EXPECT_EQ(text.words.at("u3"), (std::vector<std::string>{"c", "d"}));
  EXPECT_TRUE(Text("\xef\xbb\xbfu1 a\n").words.contains("u1")) << "behind a byte order mark";
  const Transcripts ctm =
      ParseTranscripts(";; comment\nu1 1 0.5 0.1 b 0.9\nu1 1 0.1 0.1 a\n", TranscriptFormat::kCtm, "x.ctm");
  EXPECT_EQ(ctm.words.at("u1"), (std::vector<std::string>{"a", "b"}));
}

TEST(Transcripts, NameFileAndLineOfErrors) {
  EXPECT_THAT(ErrorOf([] { Text("u1 a\nu1 b\n", "ref"); }), HasSubstr("ref:2"));
  EXPECT_THAT(ErrorOf([] { Text("u1 a\nu2 \xff\n", "ref"); }), HasSubstr("ref:2"));
  EXPECT_THAT(ErrorOf([] { ParseTranscripts("u1 1 x 0.1 a\n", TranscriptFormat::kCtm, "h.ctm"); }),
              HasSubstr("h.ctm:1"));
  EXPECT_THAT(ErrorOf([] { ParseTranscripts("u1 1 0.1\n", TranscriptFormat::kCtm, "h.ctm"); }), HasSubstr("3 fields"));
}

// By time alone the words of two speakers would be mixed.
TEST(Transcripts, ACtmHasOneChannelForEachId) {
  const std::string call = "call A 0.5 0.1 yes\ncall B 0.1 0.1 hello\n";
  const std::string error = ErrorOf([&] { ParseTranscripts(call, TranscriptFormat::kCtm, "x.ctm"); });
  EXPECT_THAT(error, ::testing::AllOf(HasSubstr("x.ctm:2"), HasSubstr("'call' has channel 'B' here and 'A' before")));
  const Transcripts apart =
      ParseTranscripts("call-A A 0.5 0.1 yes\ncall-B B 0.1 0.1 hello\n", TranscriptFormat::kCtm, "x.ctm");
  EXPECT_EQ(apart.words.at("call-B"), (std::vector<std::string>{"hello"}));
}

TEST(Transcripts, CharactersAreCodePoints) {
  EXPECT_EQ(Utf8Characters("aé語😀"), (std::vector<std::string>{"a", "é", "語", "😀"}));
  for (const char* bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe8\xaa", "\x80"}) {
    EXPECT_THROW(Utf8Characters(bad), InputError);
  }
}

TEST(Transcripts, TakeOneFormOfUnicode) {
  EXPECT_EQ(Text("u1 Caf\u00e9\n").words, Text("u1 Cafe\u0301\n").words);
  const Transcripts ctm = ParseTranscripts("u1 1 0.5 0.1 Cafe\u0301\n", TranscriptFormat::kCtm, "x.ctm");
  EXPECT_EQ(ctm.words.at("u1"), std::vector<std::string>{"Caf\u00e9"});
}

TEST(Wer, IgnoresTheCaseOfEveryAlphabet) {
  ScoreOptions options;
  const Transcripts small = Text("u1 \u03ba\u03ad\u03c1\u03b1\u03c2 \u00e9t\u00e9 stra\u00dfe\n");
  const Transcripts large = Text("u1 \u039a\u0388\u03a1\u0391\u03a3 \u00c9T\u00c9 STRASSE\n");
  EXPECT_EQ(Score(small, large, {}, options).total.counts.substitutions, 3);
  options.ignore_case = true;
  EXPECT_EQ(Score(small, large, {}, options).total.counts.errors(), 0);
}

TEST(Wer, CountsBySpeakerAndInTotal) {
  const Report report = Score(Text("u1 a b c\nu2 d\nu3\n"), Text("u1 a x c\nu2 d e\nu3\n"),
                              {{"u1", "anna"}, {"u2", "bert"}, {"u3", "bert"}});
  EXPECT_EQ(report.total.counts, (ErrorCounts{3, 1, 0, 1}));
  EXPECT_EQ(report.total.wrong_utterances, 2);
  EXPECT_EQ(report.speakers.at("anna").counts, (ErrorCounts{2, 1, 0, 0}));
  EXPECT_EQ(report.speakers.at("bert").counts, (ErrorCounts{1, 0, 0, 1}));
  EXPECT_EQ(report.speakers.at("bert").utterances, 2);
}

TEST(Wer, CharacterErrorsIgnoreBlanks) {
  ScoreOptions options;
  options.unit = "character";
  EXPECT_EQ(Score(Text("u 語 音 x\n"), Text("u 語音y\n"), {}, options).total.counts, (ErrorCounts{2, 1, 0, 0}));
}

TEST(Wer, FoldsCaseOnRequest) {
  ScoreOptions options;
  EXPECT_EQ(Score(Text("u Abc\n"), Text("u aBC\n"), {}, options).total.counts.errors(), 1);
  options.ignore_case = true;
  EXPECT_EQ(Score(Text("u Abc\n"), Text("u aBC\n"), {}, options).total.counts.errors(), 0);
}

TEST(Wer, SaysWhichUtterancesDoNotMatch) {
  const Transcripts ref = Text("u1 a\nu2 b\n", "ref"), hyp = Text("u1 a\n", "hyp");
  EXPECT_THAT(ErrorOf([&] { Score(ref, hyp); }), HasSubstr("1 of 2 utterances of ref are missing: u2"));
  EXPECT_THAT(ErrorOf([&] { Score(hyp, ref); }), HasSubstr("have no reference in hyp: u2"));
  EXPECT_THAT(ErrorOf([&] { Score(ref, ref, {{"u1", "s"}}); }), HasSubstr("utterance 'u2' has no speaker"));
  ScoreOptions options;
  options.missing = "empty";
  EXPECT_EQ(Score(ref, hyp, {}, options).total.counts, (ErrorCounts{1, 0, 1, 0}));
  options.missing = "skip";
  EXPECT_EQ(Score(ref, hyp, {}, options).total.counts, (ErrorCounts{1, 0, 0, 0}));
  const std::string summary = FormatSummary(Score(ref, hyp, {{"u1", "s"}, {"u2", "t"}}, options), false);
  EXPECT_THAT(summary, HasSubstr("1 utterances had no hypothesis"));
  EXPECT_EQ(summary.find("speaker"), std::string::npos);
  const Transcripts ctm = ParseTranscripts("u1 1 0 1 a\n", TranscriptFormat::kCtm, "h.ctm");
  EXPECT_EQ(Score(ref, ctm).total.counts, (ErrorCounts{1, 0, 1, 0}));
}

// Where nobody speaks, a CTM has no line.
TEST(Wer, ACtmAsReferenceMayLackSilentUtterances) {
  const Transcripts ref = ParseTranscripts("u1 1 0 1 a\n", TranscriptFormat::kCtm, "r.ctm");
  const Report report = Score(ref, Text("u1 a\nu2 b c\nu3\n", "hyp"), {{"u1", "s"}, {"u2", "t"}, {"u3", "t"}});
  EXPECT_EQ(report.total.counts, (ErrorCounts{1, 0, 0, 2}));
  EXPECT_EQ(report.total.utterances, 3);
  EXPECT_EQ(report.silent, (std::vector<std::string>{"u2", "u3"}));
  EXPECT_THAT(FormatSummary(report), HasSubstr("2 utterances are not in the reference's CTM"));
  EXPECT_EQ(nlohmann::json::parse(FormatJson(report, false))["silent"].size(), 2U);
  // One of another test set.
  EXPECT_THAT(ErrorOf([&] { Score(ref, Text("v1 a\nv2 b\n", "hyp")); }), HasSubstr("have no reference in r.ctm: v1"));
}

// Nothing was recognised wrongly, but nothing well, either.
TEST(Wer, OfNothingThereIsNoRate) {
  ScoreOptions options;
  options.missing = "skip";
  const Report report = Score(Text("u1 a\n"), Text(""), {}, options);
  const auto json = nlohmann::json::parse(FormatJson(report, true));
  EXPECT_EQ(json["utterances"], 0);
  EXPECT_FALSE(json.contains("error_rate")) << json;
  EXPECT_FALSE(json.contains("interval")) << json;
  EXPECT_EQ(json["missing"].size(), 1U);
}

TEST(Wer, IntervalHoldsTheRateAndIsSeeded) {
  std::string ref, hyp;
  Rng rng(3);
  for (int u = 0; u < 200; ++u) {
    ref += fmt::format("u{} a b c d e\n", u);
    hyp += fmt::format("u{} a b c d {}\n", u, rng.Uniform() < 0.5 ? "e" : "x");
  }
  const Report a = Score(Text(ref), Text(hyp)), b = Score(Text(ref), Text(hyp));
  const double rate = a.total.counts.Rate();
  EXPECT_LT(a.interval_low, rate);
  EXPECT_GT(a.interval_high, rate);
  // Each utterance errs on 1 of 5 words with probability 1/2: standard error 0.1 / sqrt(200) = 0.0071.
  EXPECT_NEAR(a.interval_high - a.interval_low, 2 * 1.96 * 0.0071, 0.006);
  EXPECT_EQ(a.interval_low, b.interval_low);
  EXPECT_EQ(a.interval_high, b.interval_high);
}

TEST(Wer, PrintsAlignmentsSummaryAndJson) {
  const Report report = Score(Text("u1 der Löwe schläft\n"), Text("u1 der Möwe schläft gut\n"), {{"u1", "s"}});
  EXPECT_THAT(FormatAlignments(report),
              HasSubstr("REF:  der Löwe schläft ***\nHYP:  der Möwe schläft gut\n          S            I\n"));
  EXPECT_THAT(FormatSummary(report), HasSubstr("WER 66.67 %"));
  const auto json = nlohmann::json::parse(FormatJson(report, true));
  EXPECT_EQ(json["errors"], 2);
  EXPECT_EQ(json["speakers"]["s"]["insertions"], 1);
  EXPECT_EQ(json["by_utterance"][0]["utt_id"], "u1");
}

TEST(Wer, EmptyReferenceHasNoFiniteRate) {
  const Report report = Score(Text("u1\n"), Text("u1 a\n"));
  EXPECT_TRUE(std::isinf(report.total.counts.Rate()));
  EXPECT_FALSE(nlohmann::json::parse(FormatJson(report, false)).contains("error_rate"));
  EXPECT_THAT(FormatSummary(report), HasSubstr("inf"));
}

// Random sentences; jiwer computes the rates of the same lines.
TEST(Wer, AgreesWithJiwer) {
  const auto python = OraclePython("jiwer");
  if (!python) GTEST_SKIP() << "no Python with jiwer (set ANTIPHON_PYTHON)";
  Rng rng(7);
  const auto sentence = [&](uint64_t min_length) {
    const char* words[] = {"a", "bb", "c", "dé", "eée"};
    std::string text;
    for (uint64_t n = min_length + rng.Below(12); n > 0; --n)
      text += std::string(text.empty() ? "" : " ") + words[rng.Below(5)];
    return text;
  };
  std::string ref, hyp, script = "import jiwer\npairs=[";
  for (int u = 0; u < 100; ++u) {
    const std::string r = sentence(1), h = sentence(0);
    ref += fmt::format("u{:03} {}\n", u, r);
    hyp += fmt::format("u{:03} {}\n", u, h);
    script += fmt::format("('{}','{}'),", r, h);
  }
  script +=
      "]\nr=[p[0] for p in pairs];h=[p[1] for p in pairs]\nprint(jiwer.wer(r,h))\n"
      "print(jiwer.cer([x.replace(' ','') for x in r],[x.replace(' ','') for x in h]))\n"
      "for x,y in pairs: print(jiwer.wer(x,y))\n";
  const auto output = RunPython(*python, script);
  ASSERT_TRUE(output);
  std::istringstream values(*output);
  double wer = 0, cer = 0;
  values >> wer >> cer;
  const Report words = Score(Text(ref), Text(hyp));
  EXPECT_NEAR(words.total.counts.Rate(), wer, 1e-12);
  ScoreOptions options;
  options.unit = "character";
  EXPECT_NEAR(Score(Text(ref), Text(hyp), {}, options).total.counts.Rate(), cer, 1e-12);
  for (const UtteranceScore& u : words.utterances) {
    ASSERT_TRUE(values >> wer);
    EXPECT_NEAR(u.alignment.counts.Rate(), wer, 1e-12) << u.utt_id;
  }
}

}  // namespace
}  // namespace antiphon::score
