#include "api/recognizer_options.h"

#include <cmath>

#include "base/config.h"
#include "base/error.h"
#include "base/options.h"

namespace antiphon {
namespace {

void Add(const std::vector<Hotword>& hotwords, const char* whose, decode::WordBiasOptions& bias) {
  for (const Hotword& hotword : hotwords) {
    if (!(std::fabs(hotword.bonus) <= 100)) {
      Throw<UsageError>("{}: the bonus of '{}' is {}, expected -100 … 100", whose, hotword.phrase, hotword.bonus);
    }
    if (hotword.phrase.find_first_not_of(" \t\r\n") == std::string::npos) {
      Throw<UsageError>("{}: a hotword without a word", whose);
    }
    bias.phrases.emplace_back(hotword.phrase, hotword.bonus);
  }
}

}  // namespace

RecognizerOptions OptionsOf(const RecognizerSettings& settings) {
  RecognizerOptions given;
  given.weights = settings.weights;
  given.rescore_arpa = settings.rescore_arpa;
  given.graph_arpa = settings.graph_arpa;
  given.lm_weight = settings.lm_weight;
  given.word_penalty = settings.word_penalty;
  given.changes.g2p = settings.g2p;
  given.changes.lm = settings.lm;
  given.vad.model = settings.vad;
  given.written = settings.written;
  given.normalize_variance = settings.normalize_variance;
  given.adaptation.passes = settings.adapt_passes;
  given.adaptation.graph = settings.adapt_graph;
  given.recognize.search.beam = settings.beam;
  given.recognize.search.lattice_beam = settings.lattice_beam;
  given.recognize.search.max_active = settings.max_active;
  given.recognize.search.acoustic_scale = settings.acoustic_scale;
  given.recognize.nbest = settings.nbest;
  given.recognize.confidences = settings.confidences;
  given.nnet.precision = settings.precision;
  given.nnet.adaptable = settings.profiles;
  given.threads = settings.threads;
  // As text once, so that the limits of the options hold for the fields too.
  const auto checked = WithContext([&] { return ReadOptions<RecognizerOptions>(OptionsToConfig(given)); },
                                   [] { return "RecognizerSettings"; });
  auto options =
      ReadOptions<RecognizerOptions>(Config::Parse(settings.options, "RecognizerSettings::options"), {}, checked);
  Add(settings.hotwords, "RecognizerSettings", options.recognize.bias);
  options.recognize.bias.words = settings.word_list;
  for (const AddedWord& added : settings.add_words) {
    options.changes.words.push_back({added.word, added.phones, added.weight});
  }
  // In fp32 it costs nothing and changes no score.
  options.nnet.adaptable = options.nnet.adaptable || options.nnet.precision == "fp32";
  return options;
}

decode::RecognizeOptions OptionsFor(const StreamSettings& settings, decode::RecognizeOptions options) {
  constexpr int kMostHypotheses = 100000;
  if (settings.nbest > kMostHypotheses)
    Throw<UsageError>("StreamSettings: nbest is {}, expected -1 … {}", settings.nbest, kMostHypotheses);
  if (settings.nbest >= 0) options.nbest = settings.nbest;
  Add(settings.hotwords, "StreamSettings", options.bias);
  if (!settings.word_list.empty()) {
    options.bias.word_list.clear();
    options.bias.words = settings.word_list;
  }
  return options;
}

}  // namespace antiphon
