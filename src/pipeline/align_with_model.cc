#include "pipeline/align_with_model.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "hmm/gmm.h"
#include "pipeline/finer_phones.h"
#include "pipeline/speaker_transforms.h"

namespace antiphon::pipeline {
namespace {

// The same words in the phones of the Gaussians that estimate speakers' transforms, which may have other ids; nothing
// if those are the network's.
std::optional<hmm::Lexicon> InPhonesOf(const hmm::HmmModel& gaussians, const hmm::Lexicon& lexicon) {
  if (gaussians.phones() == lexicon.phones()) return std::nullopt;
  return WithContext(
      [&] {
        return hmm::Lexicon::Parse(lexicon.ToText(), "the lexicon's text", lexicon.options(), gaussians.phones());
      },
      [] {
        return "the Gaussians that estimate speakers' transforms do not have all phones of the network; without "
               "transforms (adapt = false) they are not needed";
      });
}

// An utterance's alignment, unless it is to be aligned as a long one.
struct ShortAlignment {
  bool is_long = false;
  hmm::Alignment alignment = {};
  template <class V>
  void VisitFields(V& v) {
    v(is_long);
    v(alignment);
  }
};

class ModelAligner {
 public:
  ModelAligner(const AcousticModel& model, const hmm::UtteranceSource& source, const std::vector<int64_t>& sizes,
               const hmm::Lexicon& lexicon, const AlignByModelOptions& options, int num_threads, Team& team)
      : model_(model),
        source_(source),
        sizes_(sizes),
        lexicon_(lexicon),
        options_(options),
        num_threads_(num_threads),
        team_(team) {
    for (size_t i = 0; i < source.size(); ++i)
      words_.push_back(LookUpWords(lexicon, source.Words(i), options.training.map_unknown_words));
  }

  std::vector<hmm::Alignment> AlignAll(const SpeakerTransforms& transforms) const {
    return AlignBy({model_.hmm(), lexicon_, model_.subsampling(), [&](size_t i, const Matrix& features) {
                      const auto transform = transforms.find(source_.Speaker(i));
                      return transform == transforms.end() ? model_.Score(features)
                                                           : model_.ScoreAdapted(features, transform->second);
                    }});
  }

  // What speakers' transforms are estimated from: the Gaussians' states, frame by frame. Chain models have others.
  std::vector<hmm::Alignment> AlignForTransforms() const {
    const hmm::GmmModel& gaussians = *model_.adaptive();
    if (model_.subsampling() == 1 && gaussians.hmm.StructureChecksum() == model_.hmm().StructureChecksum()) {
      return AlignAll({});
    }
    // Of whole utterances, since a search that fails begins again with a wider beam.
    const std::optional<hmm::Lexicon> lexicon = InPhonesOf(gaussians.hmm, lexicon_);
    return AlignBy(
        {gaussians.hmm, lexicon ? *lexicon : lexicon_, /*subsampling=*/1, [&](size_t, const Matrix& features) {
           return std::make_unique<hmm::GmmScorer>(gaussians.FirstPassScores(features));
         }});
  }

  SpeakerTransforms EstimateTransforms(const std::vector<hmm::Alignment>& alignments) const {
    const SpokenUtterances speech{.count = source_.size(),
                                  .speaker = [&](size_t i) { return source_.Speaker(i); },
                                  .features = [&](size_t i, const auto& use) { use(source_.Features(i), true); },
                                  .alignment =
                                      [&](size_t i) {
                                        return alignments[i].ok()
                                                   ? std::span<const int32_t>(alignments[i].transition_ids)
                                                   : std::span<const int32_t>();
                                      }};
    return EstimateSpeakerTransforms(*model_.adaptive(), speech, options_.training.min_fmllr_frames, {}, num_threads_,
                                     team_);
  }

  const std::vector<hmm::WordIds>& words() const { return words_; }

 private:
  // What utterances are aligned by: the model itself, or the Gaussians that estimate its transforms.
  struct Scorer {
    const hmm::HmmModel& hmm;
    const hmm::Lexicon& lexicon;  // in its phones
    int subsampling;
    std::function<std::unique_ptr<ScoreSource>(size_t i, const Matrix& features)> score;
  };

  bool Usable(size_t i) const { return !words_[i].ids.empty() || source_.Words(i).empty(); }

  template <class Work>
  auto AboutUtterance(size_t i, const Work& work) const {
    ThrowIfCancelled("aligning");
    return WithContext(work, [&] { return fmt::format("utterance '{}'", source_.Id(i)); });
  }

  // Short utterances side by side, then the long ones, each on all threads.
  std::vector<hmm::Alignment> AlignBy(const Scorer& scorer) const {
    std::vector<hmm::Alignment> alignments(source_.size());
    std::vector<size_t> long_ones;
    std::vector<int64_t> long_sizes;
    SpreadInOrder<ShortAlignment>(
        team_, sizes_, num_threads_, Spread::kToAll,
        [&](size_t i) { return AboutUtterance(i, [&] { return AlignShort(i, scorer); }); },
        [&](size_t i, ShortAlignment&& found) {
          alignments[i] = std::move(found.alignment);
          if (!found.is_long) return;
          long_ones.push_back(i);
          long_sizes.push_back(sizes_[i]);
        });
    SpreadInOrder<hmm::Alignment>(
        team_, long_sizes, /*num_threads=*/1, Spread::kToAll,
        [&](size_t k) { return AboutUtterance(long_ones[k], [&] { return AlignLong(long_ones[k], scorer); }); },
        [&](size_t k, hmm::Alignment&& alignment) { alignments[long_ones[k]] = std::move(alignment); });
    return alignments;
  }

  ShortAlignment AlignShort(size_t i, const Scorer& scorer) const {
    const Matrix features = source_.Features(i);
    if (features.rows() == 0 || !Usable(i)) return {.alignment = {hmm::AlignStatus::kTooShort, {}, {}, 0, 0}};
    if (IsLong(features)) return {.is_long = true};
    const auto scores = scorer.score(i, features);
    if (options_.gaps.gaps == "all") return {.alignment = Gaps(scorer).Align(words_[i].ids, *scores)};
    return {.alignment = Align(scorer.hmm, scorer.lexicon, words_[i].ids, *scores, options_.training.align)};
  }

  hmm::Alignment AlignLong(size_t i, const Scorer& scorer) const {
    return Gaps(scorer).AlignLong(
        words_[i].ids, source_.Features(i), [&](const Matrix& rows) { return scorer.score(i, rows); }, num_threads_);
  }

  GapAligner Gaps(const Scorer& scorer) const {
    return {scorer.hmm, scorer.lexicon, options_.training.align, options_.gaps, scorer.subsampling};
  }

  bool IsLong(const Matrix& features) const {
    return options_.gaps.gaps != "none" &&
           static_cast<double>(features.rows()) * options_.feature_shift_s > options_.gaps.long_above_s;
  }

  const AcousticModel& model_;
  const hmm::UtteranceSource& source_;
  const std::vector<int64_t>& sizes_;
  const hmm::Lexicon& lexicon_;
  const AlignByModelOptions& options_;
  int num_threads_;
  Team& team_;
  std::vector<hmm::WordIds> words_;
};

void DescribeAligned(const hmm::UtteranceSource& source, hmm::GmmTrainingResult* result) {
  hmm::GmmTrainingReport& report = result->report;
  report.utterances = static_cast<int>(source.size());
  double total = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const hmm::Alignment& alignment = result->alignments[i];
    const hmm::WordIds& words = result->words[i];
    for (const std::string& word : words.unknown) ++report.unknown_words[word];
    total += alignment.log_likelihood;
    report.frames += static_cast<double>(alignment.transition_ids.size());
    const std::string reason = AlignStatusName(alignment.status);
    if (alignment.status == hmm::AlignStatus::kRetried) report.retried.push_back({source.Id(i), reason});
    if (alignment.ok()) continue;
    const bool unknown = words.ids.empty() && !words.unknown.empty();
    report.skipped.push_back(
        {source.Id(i), unknown ? "words without pronunciation: " + words.unknown.front() : reason});
  }
  report.final_log_likelihood = report.frames > 0 ? total / report.frames : 0;
}

}  // namespace

hmm::GmmTrainingResult AlignWithModel(const AcousticModel& model, const hmm::UtteranceSource& source,
                                      const std::vector<int64_t>& sizes, const hmm::Lexicon& lexicon,
                                      const AlignByModelOptions& options, int num_threads, Team& team) {
  const ModelAligner aligner(model, source, sizes, lexicon, options, num_threads, team);
  hmm::GmmTrainingResult result;
  if (options.adapt && model.adaptive() != nullptr)
    result.fmllr = aligner.EstimateTransforms(aligner.AlignForTransforms());
  result.alignments = aligner.AlignAll(result.fmllr);
  result.words = aligner.words();
  DescribeAligned(source, &result);
  return result;
}

std::vector<std::vector<hmm::AlignedPhone>> FinerPhonesOf(
    const AcousticModel& model, const hmm::UtteranceSource& source, const std::vector<int64_t>& sizes,
    const hmm::GmmTrainingResult& result, const AlignByModelOptions& options, int num_threads, Team& team) {
  std::vector<std::vector<hmm::AlignedPhone>> all;
  if (!HasFinerPhones(model)) return all;
  all.resize(source.size());
  SpreadInOrder<std::vector<hmm::AlignedPhone>>(
      team, sizes, num_threads, Spread::kToAll,
      [&](size_t i) -> std::vector<hmm::AlignedPhone> {
        ThrowIfCancelled("aligning");
        if (!result.alignments[i].ok()) return {};
        const auto transform = result.fmllr.find(source.Speaker(i));
        return FinerPhones(model, result.alignments[i], source.Features(i),
                           transform == result.fmllr.end() ? nullptr : &transform->second, options.feature_shift_s,
                           options.training.align);
      },
      [&](size_t i, std::vector<hmm::AlignedPhone>&& phones) { all[i] = std::move(phones); });
  return all;
}

}  // namespace antiphon::pipeline
