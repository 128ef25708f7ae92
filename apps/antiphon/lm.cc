// antiphon lm: an n-gram language model from text or from other models, and how well it predicts other text.
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/utf8.h"
#include "command.h"
#include "decode/lm/ngram_backoff.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_mix.h"
#include "decode/lm/ngram_prune.h"

namespace antiphon::app {
namespace {

struct LmCommandOptions {
  std::string text, out, vocabulary, arpa, held_out, evaluate;
  std::vector<std::string> interpolate;
  std::vector<double> weights;
  double prune = 0.0;
  bool utterance_ids = false;
  decode::NgramEstimateOptions estimate;

  template <class V>
  void Visit(V& v) {
    v("text", text, "sentences to learn from, one per line");
    v("out", out, "ARPA file to write");
    v("utterance-ids", utterance_ids,
      "lines begin with an utterance id (Kaldi text), here and in --held-out and --evaluate");
    v("vocabulary", vocabulary,
      "the words of the model, the first of each line (a lexicon will do); empty: all of the text");
    v("arpa", arpa, "prune or evaluate this model instead of learning one");
    v("interpolate", interpolate, "ARPA files whose weighted sum is the model, instead of learning one");
    v("weights", weights, Range{1e-6, 1.0}, "of the models in --interpolate, summing to 1; empty: from --held-out");
    v("held-out", held_out, "sentences on which the weights are chosen, by expectation-maximisation");
    v("prune", prune, Range{0.0, 1.0},
      "drop n-grams that raise the perplexity by less than this fraction (1e-8, say); 0: none");
    v("evaluate", evaluate, "sentences whose perplexity is printed");
    estimate.Visit(v);
  }
};

// Calls body(fields, line number) for each line that is not empty.
template <class Body>
void ForEachTextLine(const std::string& path, Body&& body) {
  std::istringstream lines(ComposeLines(ReadMaybeGzipped(path), path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream in(line);
    std::vector<std::string> fields(std::istream_iterator<std::string>(in), {});
    if (!fields.empty()) body(std::move(fields), number);
  }
}

// Models have the marks of a sentence's ends by themselves; some tools write them into their texts, too.
void DropSentenceMarks(std::vector<std::string>& sentence, const std::string& path, int line) {
  if (!sentence.empty() && sentence.front() == "<s>") sentence.erase(sentence.begin());
  if (!sentence.empty() && sentence.back() == "</s>") sentence.pop_back();
  for (const std::string& word : sentence) {
    if (word != "<s>" && word != "</s>") continue;
    Throw<InputError>(
        "{}:{}: '{}' stands within a sentence; expected one sentence a line, at most one <s> before it and one </s> "
        "behind it",
        path, line, word);
  }
}

std::vector<std::vector<std::string>> ReadSentences(const std::string& path, bool utterance_ids) {
  std::vector<std::vector<std::string>> sentences;
  ForEachTextLine(path, [&](std::vector<std::string> sentence, int line) {
    if (utterance_ids) sentence.erase(sentence.begin());
    DropSentenceMarks(sentence, path, line);
    if (!sentence.empty() || utterance_ids) sentences.push_back(std::move(sentence));
  });
  return sentences;
}

std::vector<std::string> ReadVocabulary(const std::string& path) {
  std::vector<std::string> words;
  if (path.empty()) return words;
  ForEachTextLine(path, [&](const std::vector<std::string>& fields, int) { words.push_back(fields[0]); });
  if (words.empty()) Throw<InputError>("'{}' holds no words", path);
  return words;
}

std::string Counts(const decode::NgramModel& model) {
  std::string counts;
  for (int order = 1; order <= model.order(); ++order) {
    counts += fmt::format("{}{} {}-grams", order > 1 ? ", " : "", model.NumNgrams(order), order);
  }
  return counts;
}

// A mixture whose models have different words is no mistake, but who makes it should know.
void TellVocabularies(const std::vector<std::string>& files, const std::vector<decode::NgramModel>& models,
                      CommandContext& context) {
  std::set<std::string> all;
  for (const auto& model : models) all.insert(model.words().begin(), model.words().end());
  for (size_t m = 0; m < models.size(); ++m) {
    if (const size_t lacking = all.size() - models[m].words().size(); lacking > 0) {
      context.Print("'{}' lacks {} of the {} words of all models together", files[m], lacking, all.size());
    }
  }
}

// Those given may be rounded.
std::vector<double> GivenWeights(const LmCommandOptions& options) {
  const double sum = std::accumulate(options.weights.begin(), options.weights.end(), 0.0);
  std::vector<double> weights;
  for (const double weight : options.weights) weights.push_back(weight / sum);
  return weights;
}

decode::NgramModel Interpolate(const LmCommandOptions& options, CommandContext& context,
                               nlohmann::ordered_json& result) {
  std::vector<decode::NgramModel> models;
  for (const std::string& file : options.interpolate) {
    models.push_back(decode::NgramModel::ReadArpa(file));
    WithContext([&] { decode::RequireProbabilities(models.back()); }, [&] { return fmt::format("'{}'", file); });
  }
  TellVocabularies(options.interpolate, models, context);
  std::vector<std::vector<std::string>> held_out;
  if (!options.held_out.empty()) held_out = ReadSentences(options.held_out, options.utterance_ids);
  const std::vector<double> weights =
      options.weights.empty() ? decode::EstimateMixtureWeights(models, held_out).weights : GivenWeights(options);
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (size_t m = 0; m < models.size(); ++m) {
    parts.push_back({{"arpa", options.interpolate[m]}, {"weight", weights[m]}});
    if (options.held_out.empty()) continue;
    const auto p = decode::MeasurePerplexity(models[m], held_out);
    parts.back()["perplexity"] = p.Perplexity();
    parts.back()["unknown_words"] = p.oov_words;
    context.Print("'{}': weight {:.4f}, perplexity {:.2f} with {} of {} words unknown", options.interpolate[m],
                  weights[m], p.Perplexity(), p.oov_words, p.words);
  }
  result["interpolated"] = parts;
  if (!options.held_out.empty()) {
    const auto p = decode::MeasureMixture(models, weights, held_out);
    result["mixture_perplexity"] = p.Perplexity();
    context.Print("mixture: perplexity {:.2f} with {} words unknown", p.Perplexity(), p.oov_words);
  }
  return decode::MixNgrams(models, weights);
}

decode::NgramModel Source(const LmCommandOptions& options, CommandContext& context, nlohmann::ordered_json& result) {
  if (!options.interpolate.empty()) return Interpolate(options, context, result);
  if (!options.arpa.empty()) return decode::NgramModel::ReadArpa(options.arpa);
  return decode::EstimateNgram(ReadSentences(options.text, options.utterance_ids), ReadVocabulary(options.vocabulary),
                               options.estimate);
}

void CheckWeights(const LmCommandOptions& options) {
  const double sum = std::accumulate(options.weights.begin(), options.weights.end(), 0.0);
  if (options.weights.size() != options.interpolate.size()) {
    Throw<UsageError>("--interpolate has {} models and --weights {} numbers", options.interpolate.size(),
                      options.weights.size());
  }
  if (std::abs(sum - 1.0) > 1e-3) Throw<UsageError>("--weights sum to {:.4g}, not to 1", sum);
}

void CheckTogether(const LmCommandOptions& options) {
  if (!options.text.empty() + !options.arpa.empty() + !options.interpolate.empty() != 1) {
    throw UsageError("give one of --text to learn from, --arpa to prune or evaluate, and --interpolate");
  }
  if (options.out.empty() && options.evaluate.empty()) throw UsageError("give --out to write to, or --evaluate");
  const bool mixes = !options.interpolate.empty();
  if (options.interpolate.size() == 1) throw UsageError("--interpolate needs two models or more");
  if (mixes && options.weights.empty() && options.held_out.empty()) {
    throw UsageError("--interpolate needs --weights, or --held-out to choose them by");
  }
  if (mixes && !options.weights.empty()) CheckWeights(options);
  if (!mixes && (!options.weights.empty() || !options.held_out.empty())) {
    throw UsageError("--weights and --held-out belong to --interpolate");
  }
}

void LanguageModel(const LmCommandOptions& options, CommandContext& context) {
  CheckTogether(options);
  nlohmann::ordered_json result;
  decode::NgramModel model = Source(options, context, result);
  std::vector<std::vector<std::string>> sentences;
  if (!options.evaluate.empty()) sentences = ReadSentences(options.evaluate, options.utterance_ids);
  if (options.prune > 0) {
    const std::string before = Counts(model);
    decode::NgramModel pruned = WithContext([&] { return decode::PruneNgrams(model, options.prune); },
                                            [&] { return options.arpa.empty() ? "pruning" : options.arpa; });
    if (!sentences.empty()) {
      result["perplexity_before_pruning"] = decode::MeasurePerplexity(model, sentences).Perplexity();
    }
    model = std::move(pruned);
    context.Print("pruned from {} to {}", before, Counts(model));
  }
  result["order"] = model.order();
  result["words"] = model.words().size();
  for (int order = 1; order <= model.order(); ++order) result["ngrams"].push_back(model.NumNgrams(order));
  if (!options.out.empty()) {
    WriteFileAtomically(options.out, model.ToArpa());
    context.Print("{} in {}", Counts(model), options.out);
  }
  if (!options.evaluate.empty()) {
    const auto p = decode::MeasurePerplexity(model, sentences);
    const auto before = result.find("perplexity_before_pruning");
    context.Print("perplexity {:.2f}{} over {} words in {} sentences, {} words ({:.2f} %) unknown", p.Perplexity(),
                  before == result.end() ? "" : fmt::format(" (before pruning {:.2f})", before->get<double>()), p.words,
                  p.sentences, p.oov_words,
                  p.words > 0 ? 100.0 * static_cast<double>(p.oov_words) / static_cast<double>(p.words) : 0.0);
    result["perplexity"] = p.Perplexity();
    result["evaluated_words"] = p.words;
    result["unknown_words"] = p.oov_words;
  }
  context.SetResult(result.dump(2));
}

REGISTER_COMMAND(
    "lm", LmCommandOptions, LanguageModel,
    {.summary = "estimate, mix, prune or evaluate an n-gram language model",
     .description = "Interpolated Witten-Bell (small texts) or modified Kneser-Ney smoothing; weighted sums of models; "
                    "pruning by relative entropy. All are written as back-off models in ARPA form.",
     .example = "antiphon lm --text data/train/text --utterance-ids --order 2 --vocabulary lang/lexicon.txt "
                "exp/lm.arpa\nantiphon lm --arpa exp/lm.arpa --evaluate data/dev/text --utterance-ids\n"
                "antiphon lm --interpolate lang/lm.arpa.gz,exp/lm.arpa --held-out data/dev/text --utterance-ids "
                "exp/mixed.arpa\nantiphon lm --arpa exp/mixed.arpa --prune 1e-7 exp/small.arpa",
     .positionals = {"out"}});

}  // namespace
}  // namespace antiphon::app
