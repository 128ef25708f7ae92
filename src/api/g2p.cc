#include "antiphon/g2p.h"

#include "api/internal.h"
#include "base/config.h"
#include "base/error.h"
#include "g2p/model.h"
#include "g2p/train.h"
#include "pipeline/new_words.h"

namespace antiphon {
namespace {

struct ApiTrainOptions {
  g2p::TrainOptions training;
  hmm::LexiconOptions lexicon_options;

  template <class V>
  void Visit(V& v) {
    training.Visit(v);
    v.Group("lexicon-options", lexicon_options);
  }
};

}  // namespace

struct ANTIPHON_INTERNAL G2p::Impl {
  g2p::Model model;
};

G2p::G2p(const std::string& model) : impl_(std::make_shared<const Impl>(Impl{pipeline::OpenG2p(model)})) {}

std::vector<PronunciationGuess> G2p::Pronounce(std::string_view word, const G2pSettings& settings) const {
  g2p::PronounceOptions options;
  options.nbest = settings.nbest;
  options.least_probability = settings.least_probability;
  // As text once, so that the limits of the options hold here too.
  WithContext([&] { ReadOptions<g2p::PronounceOptions>(OptionsToConfig(options)); }, [] { return "G2pSettings"; });
  std::vector<PronunciationGuess> guesses;
  for (g2p::Guess& guess : impl_->model.Pronounce(word, options)) {
    guesses.push_back({std::move(guess.phones), guess.probability});
  }
  return guesses;
}

const std::vector<std::string>& G2p::Letters() const { return impl_->model.letters(); }
const std::vector<std::string>& G2p::Phones() const { return impl_->model.phones(); }

void TrainG2p(const std::string& lexicon, const std::string& out, const std::string& options, int threads) {
  const auto read = ReadOptions<ApiTrainOptions>(Config::Parse(options, "TrainG2p"));
  const g2p::Entries entries = g2p::EntriesOf(hmm::Lexicon::Load(lexicon, read.lexicon_options));
  g2p::Train(entries.spoken, read.training, threads).model.Save(out);
}

}  // namespace antiphon
