// antiphon pronunciations: which pronunciations an alignment used, and where it has pauses.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "hmm/graph/pronunciation_model.h"
#include "hmm/lexicon.h"
#include "pipeline/aligned_pronunciations.h"

namespace antiphon::app {
namespace {

struct PronunciationsOptions {
  std::string alignment, lexicon, out;
  std::string optional_silence = "SIL";

  template <class V>
  void Visit(V& v) {
    v("alignment", alignment, "folder that antiphon align left for the training speech");
    v("lexicon", lexicon, "the lexicon that it was aligned with");
    v("out", out, "folder for lexiconp_silprob.txt, silprob.txt and lexiconp.txt");
    v("optional-silence", optional_silence, "phone of the pauses between words");
  }
};

void LearnPronunciations(const PronunciationsOptions& options, CommandContext& context) {
  hmm::LexiconOptions lexicon_options;
  lexicon_options.optional_silence = options.optional_silence;
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon, lexicon_options);
  const std::vector<hmm::SpokenWords> utterances = pipeline::ReadAlignedPronunciations(options.alignment, lexicon);
  const hmm::PronunciationModel model = hmm::EstimatePronunciations(lexicon, utterances);
  pipeline::WritePronunciations(model, lexicon, options.out);
  size_t words = 0;
  std::vector<bool> said(lexicon.entries().size(), false);
  for (const hmm::SpokenWords& utterance : utterances) {
    words += utterance.entries.size();
    for (const int32_t entry : utterance.entries) said[static_cast<size_t>(entry)] = true;
  }
  const auto heard = std::count(said.begin(), said.end(), true);
  context.Print("{} utterances with {} words: {} of {} pronunciations heard, pauses in {:.1f} % of places, in {}",
                utterances.size(), words, heard, said.size(), 100 * model.pause_overall, options.out);
  context.SetResult(nlohmann::ordered_json({{"utterances", utterances.size()},
                                            {"words", words},
                                            {"pronunciations", said.size()},
                                            {"heard", heard},
                                            {"pause_overall", model.pause_overall},
                                            {"pause_at_start", model.pause_at_start}})
                        .dump(2));
}

REGISTER_COMMAND(
    "pronunciations", PronunciationsOptions, LearnPronunciations,
    {.summary = "learn from an alignment how words are said and where pauses stand",
     .description = "Probabilities of pronunciations, and of pauses before and after them, in Kaldi's files, for "
                    "antiphon graph.",
     .example = "antiphon pronunciations --alignment exp/align --lexicon lang/lexicon.txt exp/pronunciations\n"
                "antiphon graph --model exp/align/model.safetensors --lexicon lang/lexicon.txt --pronunciations "
                "exp/pronunciations --arpa lang/lm.arpa.gz exp/graph",
     .positionals = {"out"},
     .required = {"alignment", "lexicon", "out"}});

}  // namespace
}  // namespace antiphon::app
