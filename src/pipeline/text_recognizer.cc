#include "pipeline/text_recognizer.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/parts_builder.h"
#include "decode/lattice/word_times.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "hmm/graph/openfst.h"

namespace antiphon::pipeline {
namespace {

constexpr size_t kSentence = 20;      // words: where a piece of a recording may begin and end
constexpr double kSearchBeam = 11.0;  // narrower than usual: the text says much
constexpr int kMostActive = 3000;

hmm::Lexicon OnlyWords(const hmm::Lexicon& lexicon, std::span<const int32_t> text) {
  const std::set<int32_t> words(text.begin(), text.end());
  return hmm::Lexicon::Parse(lexicon.ToText(&words), "the text's words", lexicon.options(), lexicon.phones());
}

fst::StdVectorFst TextModel(const hmm::Lexicon& lexicon, std::span<const int32_t> text, const hmm::Lexicon& words) {
  // Sentences overlap, so that every sequence of the text is within one.
  std::vector<std::vector<std::string>> sentences;
  for (size_t begin = 0; begin < text.size(); begin += kSentence / 2) {
    std::vector<std::string>& sentence = sentences.emplace_back();
    for (size_t i = begin; i < std::min(begin + kSentence, text.size()); ++i) sentence.push_back(lexicon.Word(text[i]));
  }
  const decode::NgramModel model = decode::EstimateNgram(sentences, {}, {.order = 3});
  fst::StdVectorFst grammar;
  decode::NgramToFst(
      model,
      [&](std::string_view word) {
        const int32_t id = words.FindWord(word);
        return id > 0 ? id : -1;
      },
      words.backoff_word(), &grammar);
  return grammar;
}

// Triphones need a static graph (decode/graph/parts_builder.h).
decode::Graph MakeGraph(const hmm::HmmModel& model, const hmm::Lexicon& words, const fst::StdVectorFst& grammar) {
  const decode::GraphBuildOptions build;
  if (model.context_width() > 2) {
    fst::StdVectorFst graph;
    decode::BuildGraphFst(model, words, grammar, build, &graph);
    return decode::GraphFromFst(graph, model, words);
  }
  return decode::GraphFromParts(decode::BuildGraphParts(model, words, grammar, build), model, words);
}

}  // namespace

TextRecognizer::TextRecognizer(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, std::span<const int32_t> text)
    : model_(model),
      words_(OnlyWords(lexicon, text)),
      graph_(MakeGraph(model, words_, TextModel(lexicon, text, words_))) {
  for (int32_t w = 0; w <= words_.num_words(); ++w) large_id_.push_back(w == 0 ? 0 : lexicon.FindWord(words_.Word(w)));
  options_.beam = kSearchBeam;
  options_.max_active = kMostActive;
  options_.lattice_beam = 0.5;  // the best path alone counts
  options_.acoustic_scale = decode::AcousticScale({}, model);
}

std::vector<FoundWord> TextRecognizer::Recognize(ScoreSource& scores) const {
  decode::Decoder decoder(graph_, options_);
  try {
    decoder.Advance(scores);
  } catch (const ShapeError&) {
    throw;
  } catch (const InputError&) {
    return {};  // scores that are no numbers; whoever aligns them says so
  }
  if (decoder.num_frames() == 0) return {};
  decoder.Finish();
  std::vector<FoundWord> found;
  for (const decode::TimedWord& word : decode::FindTimes(model_, words_, decoder.BestPath()).words) {
    found.push_back({large_id_[static_cast<size_t>(word.word)], word.begin_frame, word.begin_frame + word.num_frames});
  }
  return found;
}

}  // namespace antiphon::pipeline
