// antiphon::CorpusDecoder and CorpusAligner leave the files of the commands, byte by byte; what they say of a recording
// is what Recognizer and Aligner say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "antiphon/aligner.h"
#include "antiphon/corpus_aligner.h"
#include "antiphon/corpus_decoder.h"
#include "antiphon/error.h"
#include "antiphon/log.h"
#include "api/as_decode.h"
#include "api/corpus_aligner.h"
#include "api/corpus_decoder.h"
#include "api/error_of.h"
#include "comm/process_group.h"
#include "comm/team.h"
#include "pipeline/chosen_weights.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;

class Corpus : public testing::AsDecode {
 protected:
  // Two recordings, of a speaker each: audio, and a data directory of it.
  Corpus() {
    fs::create_directories(Path("audio"));
    for (const auto& [name, seconds] : {std::pair{"a", 12}, {"b", 6}}) {
      fs::rename(Speech(seconds), Path(fmt::format("audio/{}.wav", name)));
    }
    WriteFileAtomically(Path("lexicon.txt"), "ONE A\nTWO B\nTWO A B\n<UNK> SIL\n");
    WriteFileAtomically(Path("data/wav.scp"), fmt::format("a {}\nb {}\n", Path("audio/a.wav"), Path("audio/b.wav")));
    WriteFileAtomically(Path("data/text"), "a ONE TWO TWO ONE TWO ONE\nb TWO ONE\n");
    WriteFileAtomically(Path("data/utt2spk"), "a s\nb t\n");
    WriteFileAtomically(Path("text.tsv"), "a\tONE TWO TWO ONE TWO ONE\nb\tTWO ONE\n");
  }

  CorpusDecoderSettings Decoding(const std::string& config = "") {
    return {.model = Model(true),
            .graph = Path("graph"),
            .data = Path("data"),
            .out = Path("ours"),
            .config = "beam = 4.0\n" + config,
            .threads = 1};
  }
  CorpusAlignerSettings Alignment(const std::string& config = "") {
    return {.data = Path("audio"),
            .model = Model(true),
            .lexicon = Path("lexicon.txt"),
            .transcripts = Path("text.tsv"),
            .out = Path("ours"),
            .config = config,
            .threads = 1};
  }

  // Its standard output; the other one stands in "said".
  std::string Command(const std::string& arguments, int status = 0) const {
    const std::string command = fmt::format("'{}/antiphon' {} --threads 1 </dev/null >'{}' 2>'{}'", ANTIPHON_BINARY_DIR,
                                            arguments, Path("printed"), Path("said"));
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), status) << arguments << ": " << ReadFile(Path("said"));
    return ReadFile(Path("printed"));
  }
  std::string DecodeCommand() const {
    return fmt::format("decode --model '{}' --graph '{}' '{}' '{}' --beam 4", Path("net.safetensors"), Path("graph"),
                       Path("data"), Path("theirs"));
  }
  std::string AlignCommand() const {
    return fmt::format("align --model '{}' --data '{}' --lexicon '{}' --transcripts '{}' --out '{}'",
                       Path("net.safetensors"), Path("audio"), Path("lexicon.txt"), Path("text.tsv"), Path("theirs"));
  }

  void ExpectSameFiles(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      const std::string ours = ReadFile(Path("ours/" + name));
      EXPECT_EQ(ours, ReadFile(Path("theirs/" + name))) << name;
      EXPECT_FALSE(ours.empty()) << name;
    }
  }
  // Without what two runs do not have in common.
  static nlohmann::json Comparable(const std::string& json) {
    auto object = nlohmann::json::parse(json);
    for (const char* name : {"cpu_seconds", "wall_seconds", "seconds", "real_time_factor"}) object.erase(name);
    return object;
  }
};

TEST_F(Corpus, ADecodingIsTheCommands) {
  std::vector<std::string> log;
  SetLogCallback([&](LogLevel, std::string_view line) { log.emplace_back(line); });
  const DecodingOutcome made = CorpusDecoder(Decoding("nbest = 3\nrisk-scale = 0.5")).Run();
  SetLogCallback({});
  const std::string printed = Command(DecodeCommand() + " --nbest 3 --risk-scale 0.5");
  ExpectSameFiles({"text", "words.ctm", "phones.ctm", "results.jsonl", "nbest.txt", "lattices.gz", "fmllr.ark"});
  EXPECT_EQ(Comparable(made.summary), Comparable(ReadFile(Path("theirs/summary.json"))));
  EXPECT_EQ(made.summary + "\n", ReadFile(made.summary_file));
  EXPECT_EQ(made.text_file, Path("ours/text"));
  EXPECT_EQ(made.results_file, Path("ours/results.jsonl"));

  const auto told = nlohmann::json::parse(made.summary);
  EXPECT_EQ(made.utterances, 2);
  EXPECT_NEAR(made.speech_s, 18.0, 0.1);
  EXPECT_GT(made.cpu_s, 0);
  EXPECT_DOUBLE_EQ(made.real_time_factor, made.cpu_s / made.speech_s);
  EXPECT_EQ(made.lm_weight, told.at("lm_weight"));
  EXPECT_EQ(made.risk_scale, 0.5);
  EXPECT_EQ(made.output_share, 1.0);
  EXPECT_EQ(made.speaker_transforms, 2);
  EXPECT_FALSE(made.tuned);
  ASSERT_TRUE(made.errors);
  const WordErrors& errors = *made.errors;
  const auto& score = told.at("score");
  EXPECT_EQ(errors.words, 8);
  EXPECT_EQ(errors.rate, static_cast<double>(errors.substitutions + errors.deletions + errors.insertions) / 8);
  EXPECT_EQ(errors.utterances, 2);
  EXPECT_LE(errors.interval_low, errors.rate);
  EXPECT_GE(errors.interval_high, errors.rate);
  EXPECT_EQ(score.at("substitutions"), errors.substitutions) << score;
  EXPECT_EQ(score.at("deletions"), errors.deletions);
  // What the command prints the library logs, but for the seconds that it took.
  const std::string wer = printed.substr(printed.find("WER"));
  EXPECT_THAT(log, ::testing::Contains(wer.substr(0, wer.size() - 1)));
}

TEST_F(Corpus, ADecodingSaysWhatARecognizerSays) {
  for (const bool network : {true, false}) {
    CorpusDecoderSettings settings = Decoding();
    settings.model = Model(network);
    const Recognizer recognizer(settings.model, settings.graph, kSettings);
    std::istringstream lines(ReadFile(CorpusDecoder(settings).Run().results_file));
    int utterances = 0;
    for (std::string line; std::getline(lines, line); ++utterances) {
      const auto decoded = nlohmann::json::parse(line);
      const auto id = decoded.at("utt_id").get<std::string>();
      SCOPED_TRACE(id);
      EXPECT_FALSE(decoded.at("words").empty());
      ExpectSame(recognizer.RecognizeFile(Path(fmt::format("audio/{}.wav", id))), decoded);
    }
    EXPECT_EQ(utterances, 2);
  }
}

TEST_F(Corpus, WeightsAreChosenAndTaken) {
  CorpusDecoderSettings settings = Decoding();
  settings.tune = true;
  const DecodingOutcome chosen = CorpusDecoder(settings).Run();
  ASSERT_TRUE(chosen.tuned);
  EXPECT_EQ(chosen.tuned->file, Path("ours/weights.toml"));
  settings.tune = false;
  settings.weights = chosen.tuned->file;
  settings.out = Path("again");
  const DecodingOutcome again = CorpusDecoder(settings).Run();
  EXPECT_EQ(again.lm_weight, chosen.tuned->lm_weight);
  EXPECT_EQ(again.word_penalty, chosen.tuned->word_penalty);
  EXPECT_EQ(again.risk_scale, chosen.tuned->risk_scale);
  ASSERT_TRUE(again.errors);
  EXPECT_EQ(again.errors->rate, chosen.tuned->error_rate);
  EXPECT_FALSE(again.tuned);
}

// As in the score, an utterance without a transcript does not count; its words are no insertions.
TEST_F(Corpus, WeightsAreChosenOnWhatHasATranscript) {
  WriteFileAtomically(Path("data/text"), "a ONE TWO TWO ONE TWO ONE\n");
  CorpusDecoderSettings settings = Decoding("lm-weights = [10.0]\nword-penalties = [0.0]");
  settings.tune = true;
  const DecodingOutcome chosen = CorpusDecoder(settings).Run();
  ASSERT_TRUE(chosen.tuned);
  settings = Decoding();
  settings.weights = chosen.tuned->file;
  settings.out = Path("again");
  const DecodingOutcome again = CorpusDecoder(settings).Run();
  ASSERT_TRUE(again.errors);
  EXPECT_EQ(again.errors->words, 6);
  EXPECT_EQ(again.errors->rate, chosen.tuned->error_rate);
  EXPECT_THAT(ReadFile(again.text_file), HasSubstr("\nb ")) << "words of b, which are not counted";

  WriteFileAtomically(Path("data/text"), "c ONE\n");
  settings.weights.clear();
  settings.tune = true;
  const auto [kind, what] = ErrorOf([&] { CorpusDecoder(settings).Run(); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("a transcript of none of the 2 utterances that are decoded, the first: 'a'"));
}

// The greater of two utterances', by the same rule as in the middle of many.
TEST_F(Corpus, ContrastIsTheMedianOfWhatIsTuned) {
  const auto contrast = [&](const std::string& transcripts) {
    WriteFileAtomically(Path("data/text"), transcripts);
    CorpusDecoderSettings settings = Decoding("lm-weights = [10.0]\nword-penalties = [0.0]");
    settings.tune = true;
    return pipeline::ReadChosenWeights(CorpusDecoder(settings).Run().tuned->file).contrast;
  };
  const double a = contrast("a ONE\n"), b = contrast("b ONE\n");
  EXPECT_NE(a, b);
  EXPECT_GT(std::min(a, b), 0.0);
  EXPECT_EQ(contrast("a ONE\nb ONE\n"), std::max(a, b));
}

// They say nothing of how well these are recognised: no rate of 0 must come out.
TEST_F(Corpus, TranscriptsOfOtherUtterancesCountNoErrors) {
  WriteFileAtomically(Path("data/text"), "c ONE\n");
  std::vector<std::string> log;
  SetLogCallback([&](LogLevel, std::string_view line) { log.emplace_back(line); });
  const DecodingOutcome made = CorpusDecoder(Decoding()).Run();
  SetLogCallback({});
  EXPECT_EQ(made.utterances, 2);
  EXPECT_FALSE(made.errors);
  EXPECT_FALSE(nlohmann::json::parse(made.summary).contains("score")) << made.summary;
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("a transcript of none of the 2 utterances that were decoded")));
}

TEST_F(Corpus, WithoutTranscriptsNoErrorsAreCounted) {
  CorpusDecoderSettings settings = Decoding("nnet.precision = 'int8'\nnnet.lazy = true");
  settings.data = Path("audio");
  const DecodingOutcome made = CorpusDecoder(settings).Run();
  EXPECT_EQ(made.utterances, 2);
  EXPECT_FALSE(made.errors);
  EXPECT_LE(made.output_share, 1.0);
  EXPECT_EQ(made.output_share, nlohmann::json::parse(made.summary).at("output_share"));
}

// As the program runs it in several processes: all do their share; the first writes, speaks and has the outcome.
TEST_F(Corpus, TheFirstOfSeveralProcessesHasTheOutcome) {
  const DecodingOutcome alone = CorpusDecoder(Decoding()).Run();
  const AlignmentOutcome aligned_alone = CorpusAligner(Alignment()).Run();
  pipeline::DecodeRequest decoding;
  decoding.model = Model(true), decoding.graph = Path("graph"), decoding.data = Path("data");
  decoding.out = Path("theirs");
  decoding.recognize.search.beam = 4;
  pipeline::AlignRequest alignment;
  alignment.model = decoding.model, alignment.data = Path("audio"), alignment.out = Path("theirs");
  alignment.lexicon = Path("lexicon.txt"), alignment.audio.transcripts = Path("text.tsv");
  DecodingOutcome decoded[2];
  AlignmentOutcome aligned[2];
  std::vector<std::string> said[2];
  comm::ProcessGroup::Alone()->RunRanks(2, [&](comm::Communicator& comm) {
    comm::CommunicatorTeam team(comm);
    const auto rank = static_cast<size_t>(comm.rank());
    const pipeline::StageHost host{.threads = 1,
                                   .seed = 1,
                                   .say = [&](const std::string& sentence) { said[rank].push_back(sentence); },
                                   .in_team = [&](const auto& body) { body(team, 1); }};
    decoded[rank] = CorpusDecoderAccess::Make(decoding, host).Run();
    aligned[rank] = CorpusAlignerAccess::Make(alignment, host).Run();
  });
  ExpectSameFiles({"text", "words.ctm", "phones.ctm", "results.jsonl", "lattices.gz", "scores.tsv", "ali.ark"});
  EXPECT_EQ(Comparable(decoded[0].summary), Comparable(alone.summary));
  EXPECT_EQ(decoded[0].errors, alone.errors);
  EXPECT_EQ(Comparable(aligned[0].report), Comparable(aligned_alone.report));
  EXPECT_EQ(said[0].size(), 3U);  // of real time, of words, of the alignment
  EXPECT_EQ(decoded[1].summary + aligned[1].report, "");
  EXPECT_TRUE(said[1].empty());
}

TEST_F(Corpus, AnAlignmentIsTheCommands) {
  const AlignmentOutcome made = CorpusAligner(Alignment("files = ['TextGrid', 'json']")).Run();
  Command(AlignCommand() + " --files TextGrid,json");
  ExpectSameFiles({"words.ctm", "phones.ctm", "ali.ark", "pdf.ark", "scores.tsv", "fmllr.ark", "TextGrid/a.TextGrid",
                   "json/b.json"});
  EXPECT_EQ(Comparable(made.report), Comparable(ReadFile(Path("theirs/report.json"))));
  EXPECT_EQ(Comparable(made.report), Comparable(ReadFile(Path("ours/report.json"))));
  EXPECT_EQ(made.report_file, Path("ours/report.txt"));
  EXPECT_EQ(made.utterances, 2);
  EXPECT_EQ(made.aligned, 2);
  EXPECT_EQ(made.frames, nlohmann::json::parse(made.report).at("frames"));
  EXPECT_EQ(made.log_likelihood, nlohmann::json::parse(made.report).at("log_likelihood"));
  EXPECT_EQ(made.time_step_s, 0.01);
  EXPECT_FALSE(made.partial);
  EXPECT_TRUE(made.left_out.empty() && made.skipped.empty() && made.unknown_words.empty());
  EXPECT_EQ(made.model_file, "");

  const Aligner aligner(Path("net.safetensors"), Path("lexicon.txt"));
  const AlignedSpeech a = aligner.AlignFile(Path("audio/a.wav"), "ONE TWO TWO ONE TWO ONE");
  const AlignedSpeech b = aligner.AlignFile(Path("audio/b.wav"), "TWO ONE");
  EXPECT_EQ(ToCtm(a, "a") + ToCtm(b, "b"), ReadFile(made.words_file));
  EXPECT_EQ(ToCtm(a, "a", CtmLabels::kPhones) + ToCtm(b, "b", CtmLabels::kPhones), ReadFile(made.phones_file));
}

TEST_F(Corpus, WhatGetsNoAlignmentIsTold) {
  std::string much = "b\tTWO ZEBRA";
  for (int i = 0; i < 2000; ++i) much += " ONE";
  WriteFileAtomically(Path("text.tsv"), "a\tONE TWO ZEBRA\nc\tONE\n" + much + "\n");
  const AlignmentOutcome made = CorpusAligner(Alignment("gaps = 'none'")).Run();
  EXPECT_TRUE(made.partial);
  EXPECT_EQ(made.aligned, 1);
  ASSERT_EQ(made.left_out.size(), 1U);
  EXPECT_THAT(made.left_out[0].where + made.left_out[0].what, HasSubstr("c"));
  ASSERT_EQ(made.skipped.size(), 1U);
  EXPECT_EQ(made.skipped[0].where, "b");
  EXPECT_THAT(made.skipped[0].what, HasSubstr("too short"));
  EXPECT_THAT(made.unknown_words, ElementsAre(UnknownWord{"ZEBRA", 2}));
  // The command does the same, and says so by its status.
  Command(AlignCommand() + " --gaps none", 1);
  EXPECT_THAT(ReadFile(Path("said")), HasSubstr("are not aligned; report.txt"));
  ExpectSameFiles({"words.ctm", "phones.ctm", "ali.ark"});
}

TEST_F(Corpus, ACheckIsTheCommands) {
  CorpusAlignerSettings settings = Alignment();
  const std::string validate = AlignCommand() + " --validate";
  EXPECT_TRUE(CorpusAligner(settings).Check().fine());
  Command(validate);
  WriteFileAtomically(Path("text.tsv"), "a\tZEBRA ONE YAK ZEBRA\nb\tTWO ONE\n");
  feat::WriteWav(Path("audio/b.wav"), {std::vector<float>(testing::kRateHz), testing::kRateHz});
  const CorpusCheck check = CorpusAligner(settings).Check();
  EXPECT_FALSE(check.fine());
  EXPECT_EQ(check.utterances, 2);
  EXPECT_NEAR(check.speech_s, 13.0, 0.1);
  ASSERT_EQ(check.problems.size(), 1U);
  EXPECT_THAT(check.problems[0].what, HasSubstr("silent"));
  EXPECT_FALSE(check.problems[0].fatal);
  EXPECT_THAT(check.unknown_words, ElementsAre(UnknownWord{"ZEBRA", 2}, UnknownWord{"YAK", 1}));
  EXPECT_EQ(check.text, Command(validate, 1));
  EXPECT_THAT(ReadFile(Path("said")), HasSubstr("cannot be aligned as it is"));
  EXPECT_EQ(check.report + "\n", Command(validate + " --json", 1));
  EXPECT_FALSE(fs::exists(Path("ours")));
  settings.cancel.Cancel();
  EXPECT_EQ(ErrorOf([&] { CorpusAligner(settings).Check(); }).first, ErrorKind::kCancelled);
}

TEST_F(Corpus, MistakesAreNamedBeforeAnythingRuns) {
  CorpusDecoderSettings decoding = Decoding();
  CorpusAlignerSettings alignment = Alignment();
  std::string bytes = ReadFile(decoding.model);
  bytes.resize(bytes.size() - 8);
  WriteFileAtomically(Path("damaged.safetensors"), bytes);
  decoding.model = alignment.model = Path("damaged.safetensors");
  const auto decode = [this](const std::string& config) { return [=, this] { CorpusDecoder{Decoding(config)}; }; };
  const auto align = [this](const std::string& config) { return [=, this] { CorpusAligner{Alignment(config)}; }; };
  struct Case {
    std::function<void()> call;
    ErrorKind kind;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{{decode("nbset = 3"), ErrorKind::kUsage, "'nbest'"},
                                         {decode("nbest = -3"), ErrorKind::kUsage, "nbest"},
                                         {decode("nnet.precison = 'int8'"), ErrorKind::kUsage, "precision"},
                                         {decode("threads = 2"), ErrorKind::kUsage, "threads"},
                                         {decode("nbest = "), ErrorKind::kUsage, "(decoding)"},
                                         {[&] { CorpusDecoder{decoding}; }, ErrorKind::kInput, "damaged"},
                                         {align("last-stag = 'mono'"), ErrorKind::kUsage, "last-stage"},
                                         {align("align.beam = -1"), ErrorKind::kUsage, "beam"},
                                         {align("validate = true"), ErrorKind::kUsage, "validate"},
                                         {[&] { CorpusAligner{alignment}; }, ErrorKind::kInput, "damaged"}}) {
    const auto [kind, text] = ErrorOf(c.call);
    EXPECT_EQ(kind, c.kind) << text;
    EXPECT_THAT(text, HasSubstr(c.text));
  }
  EXPECT_FALSE(fs::exists(Path("ours")));
}

TEST_F(Corpus, ARunRefusesWhatIsMissing) {
  const auto decode = [&](const std::function<void(CorpusDecoderSettings&)>& change) {
    CorpusDecoderSettings settings = Decoding();
    change(settings);
    return ErrorOf([&] { CorpusDecoder(settings).Run(); });
  };
  const auto align = [&](const std::function<void(CorpusAlignerSettings&)>& change) {
    CorpusAlignerSettings settings = Alignment();
    change(settings);
    return ErrorOf([&] { CorpusAligner(settings).Run(); });
  };
  using DecodeCase = std::string CorpusDecoderSettings::*;
  for (const DecodeCase field : {&CorpusDecoderSettings::model, &CorpusDecoderSettings::data,
                                 &CorpusDecoderSettings::out, &CorpusDecoderSettings::graph}) {
    EXPECT_EQ(decode([&](auto& s) { s.*field = ""; }).first, ErrorKind::kUsage);
  }
  EXPECT_THAT(decode([](auto& s) { s.out = ""; }).second, HasSubstr("(out)"));
  EXPECT_THAT(align([](auto& s) { s.out = ""; }).second, HasSubstr("(out)"));
  EXPECT_EQ(align([](auto& s) { s.data = ""; }).first, ErrorKind::kUsage);
  EXPECT_THAT(decode([](auto& s) { s.out = s.data; }).second, HasSubstr("its text"));
  EXPECT_THAT(decode([this](auto& s) { s.graph = Path("nowhere"); }).second, HasSubstr("nowhere"));
  EXPECT_THAT(align([this](auto& s) { s.lexicon = Path("nowhere"); }).second, HasSubstr("nowhere"));
  EXPECT_EQ(decode([](auto& s) { s.cancel.Cancel(); }).first, ErrorKind::kCancelled);
  EXPECT_EQ(align([](auto& s) { s.cancel.Cancel(); }).first, ErrorKind::kCancelled);
  EXPECT_FALSE(fs::exists(Path("ours/text")));
  EXPECT_FALSE(fs::exists(Path("ours/words.ctm")));
}

// A token that is cancelled on the way, by what the library says: all end between two of their steps.
TEST_F(Corpus, ARunEndsWhenItIsCancelledOnTheWay) {
  for (const std::string job : {"decode", "align", "check"}) {
    SCOPED_TRACE(job);
    const CancelToken token;
    int heard = 0;
    SetLogCallback([&](LogLevel, std::string_view) {
      ++heard;
      token.Cancel();
    });
    const auto [kind, text] = ErrorOf([&] {
      CorpusDecoderSettings decoding = Decoding();
      decoding.data = Path("audio");
      CorpusAlignerSettings alignment = Alignment();
      decoding.cancel = alignment.cancel = token;
      if (job == "decode") CorpusDecoder(decoding).Run();
      if (job == "align") CorpusAligner(alignment).Run();
      if (job == "check") CorpusAligner(alignment).Check();
    });
    SetLogCallback({});
    EXPECT_EQ(kind, ErrorKind::kCancelled) << text;
    EXPECT_GT(heard, 0);
    EXPECT_FALSE(fs::exists(Path("ours/text")) || fs::exists(Path("ours/words.ctm")));
  }
}

}  // namespace
}  // namespace antiphon
