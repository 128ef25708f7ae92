// antiphon written: words as people write them, with numbers, capitals and full stops.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "command.h"
#include "data/text_table.h"
#include "hmm/graph/openfst.h"
#include "written/english_rules.h"
#include "written/rule_source.h"
#include "written/sentence_scores.h"
#include "written/written_form.h"

namespace antiphon::app {
namespace {

using Json = nlohmann::ordered_json;

struct WrittenRulesOptions {
  std::string source, out;

  template <class V>
  void Visit(V& v) {
    v("source", source, "file of rules (docs/guides/written-form.md), or english: those that come with the program");
    v("out", out, "transducer to write, NAME.fst; empty: the rules are printed as they stand in the source");
  }
};

void BuildWrittenRules(const WrittenRulesOptions& options, CommandContext& context) {
  const bool english = options.source == written::kEnglish;
  const std::string text =
      english ? std::string(written::EnglishRules()) : ComposeLines(ReadFile(options.source), options.source);
  fst::StdVectorFst rules;
  written::BuildRules(text, options.source, &rules);
  if (options.out.empty()) {
    context.out() << text;
    return;
  }
  if (!options.out.ends_with(written::kRuleEnding)) {
    Throw<UsageError>("'{}' does not end in {}, by which rules are known", options.out, written::kRuleEnding);
  }
  written::Rules(rules, options.source).Save(options.out);
  context.Print("{} states in {}", rules.NumStates(), options.out);
  context.SetResult(Json({{"states", rules.NumStates()}}).dump());
}

struct WrittenTrainOptions {
  std::string text, out;
  double held_out = 0.0;
  written::SentenceTraining training;

  template <class V>
  void Visit(V& v) {
    v("text", text, "text in sentences with full stops and capitals, UTF-8");
    v("out", out, "model file to write; sentences.safetensors in the folder of a written form");
    v("held-out", held_out, Range{0.0, 0.5},
      "share of the text, its end, by which a model of the rest is measured first; 0: it is not measured");
    training.Visit(v);
  }
};

Json JsonOf(const written::FoundPlaces& places) {
  return {{"wanted", places.wanted}, {"found", places.found}, {"right", places.right}};
}

void TrainWritten(const WrittenTrainOptions& options, CommandContext& context) {
  written::SentenceTraining training = options.training;
  training.seed = context.seed();
  const std::vector<written::PunctuatedWord> words =
      written::ReadPunctuated(ComposeLines(ReadFile(options.text), options.text));
  Json result = {{"words", words.size()}};
  if (options.held_out > 0) {
    const auto rest = words.end() - std::lround(options.held_out * static_cast<double>(words.size()));
    const auto scores = written::ScoreSentences(written::TrainSentences({words.begin(), rest}, training),
                                                std::vector(rest, words.end()));
    context.Print(
        "held out: of {} sentence ends {:.1f} % found, {:.1f} % of those found are right; of {} capitals "
        "{:.1f} % and {:.1f} %",
        scores.ends.wanted, 100 * scores.ends.recall(), 100 * scores.ends.precision(), scores.capitals.wanted,
        100 * scores.capitals.recall(), 100 * scores.capitals.precision());
    result["held_out"] = {{"ends", JsonOf(scores.ends)}, {"capitals", JsonOf(scores.capitals)}};
  }
  written::TrainSentences(words, training).Save(options.out);
  context.Print("learnt from {} words: {}", words.size(), options.out);
  context.SetResult(result.dump(2));
}

struct WrittenApplyOptions {
  std::string form = written::kEnglish;
  std::string text = "-";
  std::string ctm;

  template <class V>
  void Visit(V& v) {
    v("form", form, "folder of rules and of a model of sentences, one of its files, or english");
    v("text", text, "file of what was said, an utterance per line; -: standard input");
    v("ctm", ctm,
      "file of words with their times, whose pauses count, in place of --text: words.ctm of align or decode");
  }
};

std::string TextOf(const written::WrittenForm& form, const std::vector<written::SpokenWord>& words) {
  std::string text;
  for (const written::WrittenToken& token : form.Write(words, /*ended=*/true).tokens) {
    text += (text.empty() ? "" : " ") + token.text;
  }
  return text;
}

struct TimedUtterance {
  std::string utt_id;
  std::vector<written::SpokenWord> words;
};

// Lines UTTERANCE CHANNEL START DURATION WORD, those of an utterance together; an alignment's pauses are left out.
std::vector<TimedUtterance> ReadCtm(const std::string& path) {
  std::vector<TimedUtterance> utterances;
  std::istringstream in(ComposeLines(ReadFile(path), path));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::vector<std::string> fields = data::SplitWords(line);
    double start_s = 0, duration_s = 0;
    if (fields.empty() || fields[0].starts_with(";;")) continue;
    if (fields.size() < 5 || !data::ParseReal(fields[2], start_s) || !data::ParseReal(fields[3], duration_s)) {
      Throw<InputError>("{}:{}: expected UTTERANCE CHANNEL START DURATION WORD, found '{}'", path, number, line);
    }
    if (utterances.empty() || utterances.back().utt_id != fields[0]) utterances.push_back({fields[0], {}});
    utterances.back().words.push_back({fields[4], start_s, start_s + duration_s});
  }
  return utterances;
}

void ApplyWritten(const WrittenApplyOptions& options, CommandContext& context) {
  if (!options.ctm.empty() && context.config().Has("text")) {
    throw UsageError("--ctm takes the place of the text: leave one of them out");
  }
  std::istringstream file(options.text == "-" ? "" : ReadFile(options.text));
  std::istream& in = options.text == "-" ? std::cin : file;
  const auto files = WithContext([&] { return written::FilesOf(options.form); },
                                 [] { return "the form stands first, the file of text second"; });
  const auto form = written::WrittenForm::Load(files, /*fold_case=*/true);
  Json lines = Json::array();
  const auto tell = [&](const std::string& text) {
    context.PrintLine(text);
    if (context.json()) lines.push_back(text);
  };
  if (!options.ctm.empty()) {
    for (const TimedUtterance& utterance : ReadCtm(options.ctm))
      tell(utterance.utt_id + " " + TextOf(form, utterance.words));
    return context.SetResult(Json({{"lines", std::move(lines)}}).dump());
  }
  bool first = true;
  for (std::string line; std::getline(in, line); first = false) {
    RequireUtf8(line);
    std::istringstream fields(ComposeUtf8(first ? WithoutByteOrderMark(line) : line));
    std::vector<written::SpokenWord> words;
    for (std::string word; fields >> word;) words.push_back({word});
    tell(TextOf(form, words));
  }
  context.SetResult(Json({{"lines", std::move(lines)}}).dump());
}

REGISTER_COMMAND("written rules", WrittenRulesOptions, BuildWrittenRules,
                 {.summary = "build rules of how spoken words are written",
                  .description = "Compiles rules of numbers, times, money and the like to a transducer that --written "
                                 "takes. Others' OpenFst transducers over bytes serve as well.",
                  .example = "antiphon written rules english\n"
                             "antiphon written rules my.rules my.fst",
                  .positionals = {"source", "out"},
                  .required = {"source"}});

REGISTER_COMMAND("written train", WrittenTrainOptions, TrainWritten,
                 {.summary = "learn where sentences end and what has capitals",
                  .description = "Learns a small model from text in sentences, which sets full stops, question marks, "
                                 "commas and capitals in what was recognised.",
                  .example = "antiphon written train novel.txt mine/sentences.safetensors --held-out 0.1",
                  .positionals = {"text", "out"},
                  .required = {"text", "out"},
                  .common = {"held-out", "buckets", "passes"}});

REGISTER_COMMAND("written apply", WrittenApplyOptions, ApplyWritten,
                 {.summary = "text of spoken words as people write it",
                  .description = "An utterance per line, in and out. The same as --written of transcribe, listen and "
                                 "decode, but without the pauses; with --ctm, whose lines tell an utterance's name "
                                 "first, with them.",
                  .example = "echo i paid twenty five dollars at half past three | antiphon written apply\n"
                             "antiphon written apply english said.txt\n"
                             "antiphon written apply english --ctm exp/times/words.ctm",
                  .positionals = {"form", "text"}});

}  // namespace
}  // namespace antiphon::app
