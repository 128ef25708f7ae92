// antiphon realign: forced alignment by a model that is there already, GMM or network.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "align_output.h"
#include "align_source.h"
#include "api/acoustic_model.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "command.h"
#include "data/feature_source.h"
#include "hmm/aligner.h"
#include "hmm/lexicon.h"

namespace antiphon::app {
namespace {

struct RealignCommandOptions {
  std::string model, data, lexicon, out;
  double memory_mb = 4000;
  bool map_unknown_words = true;
  data::FeatureSourceOptions features;
  hmm::LexiconOptions lexicon_options;
  hmm::AlignOptions align;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file: GMM or network");
    v("data", data, "folder with text, utt2spk and (from antiphon features) feats.scp and cmvn.scp");
    v("lexicon", lexicon, "pronunciations: WORD PHONE … per line");
    v("out", out, "folder for ali.scp, pdf.scp, phones.ctm and words.ctm");
    v("memory-mb", memory_mb, Range{0, 1e9}, "features up to this size are kept in memory");
    v("map-unknown-words", map_unknown_words, "align words that the lexicon lacks as <UNK>, if it has that");
    features.Visit(v);
    v.Group("lexicon-options", lexicon_options);
    v.Group("align", align);
    v.Group("nnet", nnet);
  }
};

void Realign(const RealignCommandOptions& options, CommandContext& context) {
  const auto model = AcousticModel::Load(options.model, options.nnet);
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon, options.lexicon_options, model->hmm().phones());
  const AlignSource source(options.data, options.features, options.memory_mb, context.threads());
  AlignOutput output(options.out, model->hmm(), source.frame_shift_s());
  int64_t frames = 0;
  double log_likelihood = 0;
  std::vector<std::string> failed;
  ParallelInOrder<hmm::Alignment>(
      source.size(), context.threads(),
      [&](size_t i) {
        ThrowIfCancelled("aligning");
        const hmm::WordIds words = hmm::LookUpWords(lexicon, source.Words(i), options.map_unknown_words);
        if (words.ids.empty() && !source.Words(i).empty()) return hmm::Alignment();
        const auto scores = model->Score(source.Features(i));
        return hmm::Align(model->hmm(), lexicon, words.ids, *scores, options.align);
      },
      [&](size_t i, hmm::Alignment&& alignment) {
        if (!alignment.ok()) {
          log::Warn("utterance '{}': {}", source.Id(i), hmm::AlignStatusName(alignment.status));
          failed.push_back(source.Id(i));
          return;
        }
        std::vector<std::string> spoken;
        for (const int32_t id : hmm::LookUpWords(lexicon, source.Words(i), options.map_unknown_words).ids) {
          spoken.push_back(lexicon.Word(id));
        }
        output.Write(source.Id(i), alignment, spoken);
        frames += static_cast<int64_t>(alignment.transition_ids.size());
        log_likelihood += alignment.log_likelihood;
      });
  if (frames == 0) throw InputError("no utterance could be aligned");
  output.Close();
  context.Print("{} of {} utterances aligned, log-likelihood {:.3f} per frame", source.size() - failed.size(),
                source.size(), log_likelihood / static_cast<double>(frames));
  context.SetResult(nlohmann::json({{"utterances", source.size()},
                                    {"failed", failed},
                                    {"frames", frames},
                                    {"log_likelihood", log_likelihood / static_cast<double>(frames)}})
                        .dump());
}

REGISTER_COMMAND("realign", RealignCommandOptions, Realign,
                 {.summary = "align transcribed speech with a model that is there already",
                  .description = "Viterbi alignment by a GMM or a network, for retraining on better alignments or for "
                                 "times of phones and words.",
                  .example = "antiphon realign --model exp/net/model.safetensors --data exp/train --lexicon "
                             "lang/lexicon.txt --out exp/ali2",
                  .positionals = {},
                  .required = {"model", "data", "lexicon", "out"}});

}  // namespace
}  // namespace antiphon::app
