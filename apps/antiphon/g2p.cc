// antiphon g2p: pronunciations of words that the lexicon lacks, learnt from those that it has.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "command.h"
#include "g2p/entries.h"
#include "g2p/evaluate.h"
#include "g2p/model.h"
#include "g2p/train.h"
#include "pipeline/new_words.h"

namespace antiphon::app {
namespace {

constexpr const char* kG2pModelHelp =
    "what antiphon g2p train wrote, or a recogniser by antiphon bundle that has it inside";

using Json = nlohmann::ordered_json;

constexpr size_t kMostNamed = 5;

// "'a', 'b' and 3 others".
std::string SomeWords(const std::vector<std::string>& words) {
  const std::vector<std::string> first(words.begin(),
                                       words.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNamed, words.size())));
  return fmt::format("'{}'{}", fmt::join(first, "', '"),
                     words.size() > kMostNamed ? fmt::format(" and {} others", words.size() - kMostNamed) : "");
}

g2p::Entries ReadSpoken(const std::string& file, const hmm::LexiconOptions& options) {
  g2p::Entries entries = g2p::EntriesOf(hmm::Lexicon::Load(file, options));
  if (entries.spoken.empty()) Throw<InputError>("'{}' has no words that are spelt as they are said", file);
  return entries;
}

struct ScoredEvaluation {
  Json json;
  std::string text;
};

ScoredEvaluation WithText(const g2p::Evaluation& e) {
  return {{{"words", e.words},
           {"wrong_words", e.wrong_words},
           {"word_error", e.word_error()},
           {"phones", e.phones},
           {"phone_errors", e.phone_errors},
           {"phone_error", e.phone_error()}},
          fmt::format("{} of {} words wrong ({:.2f} %), {:.2f} % of their phones{}", e.wrong_words, e.words,
                      100 * e.word_error(), 100 * e.phone_error(),
                      e.unknown.empty() ? "" : "; letters unknown in " + SomeWords(e.unknown))};
}

struct G2pTrainOptions {
  std::string lexicon, out;
  double held_out = 0.0;
  g2p::TrainOptions training;
  hmm::LexiconOptions lexicon_options;

  template <class V>
  void Visit(V& v) {
    v("lexicon", lexicon, "pronunciations to learn from: WORD PHONE … per line");
    v("out", out, "model file to write, NAME.g2p");
    v("held-out", held_out, Range{0.0, 0.5},
      "share of the words by which the error on unknown words is measured first, with a model of the others; the model "
      "that is written learns from all. 0: it is not measured");
    training.Visit(v);
    v.Group("lexicon-options", lexicon_options);
  }
};

void TrainG2p(const G2pTrainOptions& options, CommandContext& context) {
  if (!options.out.ends_with(".g2p")) {
    Throw<UsageError>("'{}' does not end in .g2p, by which models of pronunciations are known", options.out);
  }
  const g2p::Entries entries = ReadSpoken(options.lexicon, options.lexicon_options);
  if (!entries.left_out.empty()) {
    context.Print("left out, as they are not spelt as they are said: {}", SomeWords(entries.left_out));
  }
  Json result;
  if (options.held_out > 0) {
    const auto [apart, rest] = g2p::KeepApart(entries.spoken, options.held_out);
    if (apart.empty() || rest.empty()) {
      Throw<UsageError>("--held-out {} of '{}' leaves no words on one side", options.held_out, options.lexicon);
    }
    const g2p::Trained part = g2p::Train(rest, options.training, context.threads());
    const ScoredEvaluation score = WithText(g2p::Evaluate(part.model, apart, {}, context.threads()));
    context.Print("held out: {}", score.text);
    result["held_out"] = score.json;
  }
  const g2p::Trained trained = g2p::Train(entries.spoken, options.training, context.threads());
  if (!trained.report.uncut.empty()) {
    context.Print("left out, as a letter stands for {} phones at most (--max-phones): {}", trained.report.max_phones,
                  SomeWords(trained.report.uncut));
  }
  trained.model.Save(options.out);
  result["words"] = trained.report.words;
  result["pronunciations"] = trained.report.pronunciations;
  result["letters"] = trained.model.letters().size();
  result["phones"] = trained.model.phones().size();
  result["left_out"] = entries.left_out.size() + trained.report.uncut.size();
  result["bytes"] = MappedFile(options.out).bytes().size();
  context.Print("{}: {} letters, {} phones, learnt from {} words; {:.1f} MB", options.out,
                trained.model.letters().size(), trained.model.phones().size(), trained.report.words,
                result["bytes"].get<double>() / 1e6);
  context.SetResult(result.dump(2));
}

struct G2pApplyOptions {
  std::string model, list, lexicon, out;
  std::vector<std::string> words;
  bool probabilities = false;
  g2p::PronounceOptions pronounce;

  template <class V>
  void Visit(V& v) {
    v("model", model, kG2pModelHelp);
    v("words", words, "words to pronounce");
    v("list", list, "file of further words, the first of each line");
    v("lexicon", lexicon, "leave out the words that this lexicon has");
    v("probabilities", probabilities, "write WORD PROBABILITY PHONE …, as a lexicon with probabilities has it");
    v("out", out, "lexicon to write; empty: standard output");
    pronounce.Visit(v);
  }
};

// In the order in which they were given, each once.
std::vector<std::string> WordsToPronounce(const G2pApplyOptions& options) {
  std::vector<std::string> words;
  std::set<std::string> seen;
  if (!options.lexicon.empty()) {
    const hmm::Lexicon known = hmm::Lexicon::Load(options.lexicon);
    for (int32_t id = 1; id <= known.num_words(); ++id) seen.insert(known.Word(id));
  }
  const auto add = [&](const std::string& word) {
    if (seen.insert(word).second) words.push_back(word);
  };
  for (const std::string& word : options.words) add(ComposeUtf8(word));
  if (!options.list.empty()) {
    std::istringstream lines(ComposeLines(ReadFile(options.list), options.list));
    for (std::string line, word; std::getline(lines, line);) {
      if (std::istringstream(line) >> word) add(word);
    }
  }
  return words;
}

void ApplyG2p(const G2pApplyOptions& options, CommandContext& context) {
  if (options.words.empty() && options.list.empty()) throw UsageError("give words to pronounce, or --list with a file");
  const g2p::Model model = pipeline::OpenG2p(options.model);
  const std::vector<std::string> words = WordsToPronounce(options);
  Json result = Json::object();
  std::string text;
  ParallelInOrder<std::vector<g2p::Guess>>(
      words.size(), context.threads(), [&](size_t i) { return model.Pronounce(words[i], options.pronounce); },
      [&](size_t i, std::vector<g2p::Guess>&& guesses) {
        result[words[i]] = Json::array();
        for (const g2p::Guess& guess : guesses) {
          result[words[i]].push_back({{"phones", guess.phones}, {"probability", guess.probability}});
          text += words[i];
          if (options.probabilities) text += fmt::format(" {:.6f}", std::max(guess.probability, 1e-6));
          text += fmt::format(" {}\n", fmt::join(guess.phones, " "));
        }
      });
  if (!options.out.empty()) {
    WriteFileAtomically(options.out, text);
    context.Print("{} words in {}", words.size(), options.out);
  } else if (!text.empty()) {
    text.pop_back();
    context.PrintLine(text);
  }
  context.SetResult(result.dump(2));
}

struct G2pEvaluateOptions {
  std::string model, lexicon;
  g2p::PronounceOptions pronounce;
  hmm::LexiconOptions lexicon_options;

  template <class V>
  void Visit(V& v) {
    v("model", model, kG2pModelHelp);
    v("lexicon", lexicon, "words with their right pronunciations, which the model has not learnt from");
    pronounce.VisitSearch(v);
    v.Group("lexicon-options", lexicon_options);
  }
};

void EvaluateG2p(const G2pEvaluateOptions& options, CommandContext& context) {
  const g2p::Model model = pipeline::OpenG2p(options.model);
  const g2p::Entries entries = ReadSpoken(options.lexicon, options.lexicon_options);
  const ScoredEvaluation score = WithText(g2p::Evaluate(model, entries.spoken, options.pronounce, context.threads()));
  context.PrintLine(score.text);
  context.SetResult(score.json.dump(2));
}

REGISTER_COMMAND("g2p train", G2pTrainOptions, TrainG2p,
                 {.summary = "learn from a lexicon how words are pronounced",
                  .description = "Finds which letters stand for which phones and how they follow each other, in any "
                                 "language and script. The model pronounces words that the lexicon lacks.",
                  .example = "antiphon g2p train lang/lexicon.txt lang/english.g2p --held-out 0.05",
                  .positionals = {"lexicon", "out"},
                  .required = {"lexicon", "out"},
                  .common = {"held-out", "order", "max-letters", "max-phones", "prune"}});

REGISTER_COMMAND(
    "g2p apply", G2pApplyOptions, ApplyG2p,
    {.summary = "pronunciations of words, as lines of a lexicon",
     .description = "Words that are in the lexicon too come out of the model, unless --lexicon leaves them "
                    "out. A word with a letter that the model never saw is refused by name.",
     .example = "antiphon g2p apply lang/english.g2p wallaby quokka --nbest 3 --probabilities\n"
                "antiphon g2p apply lang/english.g2p --list words.txt --out new-words.txt",
     .positionals = {"model", "words"},
     .required = {"model"}});

REGISTER_COMMAND("g2p evaluate", G2pEvaluateOptions, EvaluateG2p,
                 {.summary = "how often a model pronounces known words wrongly",
                  .description = "A word is right if its best pronunciation is one of those in the lexicon.",
                  .example = "antiphon g2p evaluate lang/english.g2p lang/other-words.txt",
                  .positionals = {"model", "lexicon"},
                  .required = {"model", "lexicon"}});

}  // namespace
}  // namespace antiphon::app
