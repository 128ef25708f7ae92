#include "hmm/gmm_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "hmm/fmllr.h"
#include "hmm/gmm_passes.h"
#include "hmm/questions.h"

namespace antiphon::hmm {
namespace {

bool Contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

class Trainer {
 public:
  Trainer(const UtteranceSource& source, const Lexicon& lexicon, const GmmTrainingOptions& options, int num_threads,
          uint64_t seed, const std::function<void(const std::string&)>& progress, Team& team)
      : source_(source),
        lexicon_(lexicon),
        options_(options),
        seed_(seed),
        progress_(progress),
        passes_(source, lexicon, options.map_unknown_words, num_threads, team) {}

  GmmTrainingResult Run() {
    Check();
    const std::string& last = options_.last_stage;
    Monophones();
    if (last != "mono") Triphones();
    if (last == "lda-mllt" || last == "sat") LdaMllt();
    if (last == "sat") SpeakerAdaptive();
    return Finish();
  }

 private:
  void Check() {
    base_dim_ = -1;
    for (size_t i = 0; i < source_.size(); ++i) {
      const Matrix features = source_.Features(i);
      frames_ += static_cast<double>(features.rows());
      if (features.rows() > 0 && base_dim_ < 0) base_dim_ = static_cast<int>(features.cols());
    }
    if (base_dim_ <= 0) throw InputError("no utterance has features");
    report_.utterances = static_cast<int>(source_.size());
    for (const WordIds& words : passes_.words()) {
      for (const std::string& word : words.unknown) ++report_.unknown_words[word];
    }
  }

  void Say(const std::string& line) const {
    if (progress_) progress_(line);
  }

  void BeginStage(const std::string& stage) {
    report_.stages.push_back({});
    report_.stages.back().stage = stage;
    model_.stage = stage;
    begin_ = std::chrono::steady_clock::now();
  }

  void EndStage() {
    StageReport& stage = report_.stages.back();
    stage.pdfs = model_.hmm.num_pdfs();
    stage.gaussians = model_.gmm.num_gaussians();
    stage.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    Say(fmt::format("{}: {} states, {} Gaussians, log-likelihood {:.3f} per frame, {:.1f} s", stage.stage, stage.pdfs,
                    stage.gaussians, stage.iterations.back().log_likelihood, stage.seconds));
  }

  // One Gaussian per pdf-id from the current alignments.
  void InitialGaussians() {
    std::vector<float> mean;
    std::vector<float> variance;
    passes_.GlobalMoments(model_.transform, &mean, &variance);
    model_.gmm = GmmSet(model_.hmm.num_pdfs(), mean, variance);
  }

  void Monophones() {
    BeginStage("mono");
    const Topology topology(lexicon_.phones(), options_.topology);
    model_.hmm = HmmModel(lexicon_.phones(), topology, ContextTree::Monophone(topology));
    model_.transform = FeatureTransform::Deltas(base_dim_);
    InitialGaussians();
    const int too_short = passes_.AlignEquallyAll(model_.hmm, seed_);
    if (too_short > 0)
      Say(fmt::format("mono: {} utterances are too short for an equal alignment, tried again later", too_short));
    Em(options_.mono, false, false);
    EndStage();
  }

  void Triphones() {
    passes_.AlignAll(model_, options_.align);
    BeginStage("tri");
    GrowTree(model_.transform);
    InitialGaussians();
    Em(options_.tri, false, false);
    EndStage();
  }

  void LdaMllt() {
    passes_.AlignAll(model_, options_.align);
    BeginStage("lda-mllt");
    model_.transform = passes_.EstimateLda(model_.hmm, base_dim_, options_.splice, options_.lda_dim);
    GrowTree(model_.transform);
    InitialGaussians();
    Em(options_.lda_mllt, true, false);
    EndStage();
  }

  void SpeakerAdaptive() {
    passes_.AlignAll(model_, options_.align);
    BeginStage("sat");
    passes_.UpdateFmllr(model_, options_.min_fmllr_frames);
    GrowTree(model_.transform);
    InitialGaussians();
    Em(options_.sat, false, true);
    model_.first_pass = Reestimate(model_.gmm, passes_.AccumulateFirstPass(model_), options_.update);
    EndStage();
  }

  // A new tree from the current alignments, which are then written in its ids.
  void GrowTree(const FeatureTransform& transform) {
    const TreeStats stats = passes_.CollectTreeStats(model_.hmm, transform);
    TreeOptions tree_options = options_.tree;
    if (tree_options.num_leaves == 0) tree_options.num_leaves = LeavesFor(stats);
    StageReport& report = report_.stages.back();
    ContextTree tree = BuildTree(stats, model_.hmm.phones(), model_.hmm.topology(),
                                 FindQuestions(stats, model_.hmm.phones()), tree_options, &report.tree);
    HmmModel tied(model_.hmm.phones(), model_.hmm.topology(), std::move(tree));
    for (std::vector<int32_t>& alignment : passes_.alignments())
      alignment = model_.hmm.ConvertAlignment(alignment, tied);
    model_.hmm = std::move(tied);
  }

  int LeavesFor(const TreeStats& stats) const {
    double speech = 0;
    for (const auto& [context, s] : stats) speech += lexicon_.phones().IsSilence(context.window[1]) ? 0 : s.count();
    return static_cast<int>(std::clamp(speech / 500, 60.0, 12000.0));
  }

  // From the amount of data: for four hours as many as Kaldi's recipes take.
  int GaussiansFor(const EmOptions& em) const {
    if (em.gaussians > 0) return em.gaussians;
    const std::string& stage = report_.stages.back().stage;
    const double count =
        stage == "mono" ? std::min(frames_ / 50, 1000.0) : std::min(frames_ / (stage == "tri" ? 130 : 90), 200000.0);
    return std::max(model_.hmm.num_pdfs(), static_cast<int>(count));
  }

  void Em(const EmOptions& em, bool mllt, bool fmllr) {
    Rng rng(MixSeed(seed_, report_.stages.size()));
    const int start = model_.hmm.num_pdfs();
    const int wanted = GaussiansFor(em);
    const int grow_until = std::max(1, em.iterations - std::max(1, em.iterations / 4));
    // The first update makes each pdf's own Gaussian; Gaussians are added from then on.
    for (int iteration = 0; iteration <= em.iterations; ++iteration) {
      IterationReport report;
      report.iteration = iteration;
      report.realigned = iteration > 0 && Contains(em.realign, iteration);
      if (mllt && Contains(options_.mllt_iterations, iteration)) report.transform_gain = passes_.UpdateMllt(&model_);
      if (fmllr && Contains(options_.fmllr_iterations, iteration))
        report.transform_gain = passes_.UpdateFmllr(model_, options_.min_fmllr_frames);
      std::vector<double> transition_counts;
      GmmPasses::Counts counts;
      const GmmStats stats =
          passes_.AlignAndAccumulate(model_, report.realigned ? &options_.align : nullptr, &transition_counts, &counts);
      report.retried = counts.retried;
      report.failed = counts.failed;
      report.log_likelihood = stats.log_likelihood() / stats.num_frames();
      GmmUpdateOptions update = options_.update;
      if (iteration == 0) update.min_occupancy = std::min(update.min_occupancy, 3.0);
      std::vector<double> occupancy;
      for (int32_t pdf = 0; pdf < model_.gmm.num_pdfs(); ++pdf)
        occupancy.push_back(stats.PdfOccupancy(model_.gmm, pdf));
      model_.gmm = Reestimate(model_.gmm, stats, update);
      model_.hmm.transitions().Update(transition_counts, options_.transitions);
      if (iteration < em.iterations) {
        const int target = start + (wanted - start) * std::min(iteration + 1, grow_until) / grow_until;
        model_.gmm = MixUp(model_.gmm, occupancy, target, em.power, 20, rng);
      }
      report.gaussians = model_.gmm.num_gaussians();
      report_.stages.back().iterations.push_back(report);
      if (report.realigned)
        Say(fmt::format("{} {}/{}: log-likelihood {:.3f}, {} Gaussians, {} retried, {} failed", model_.stage, iteration,
                        em.iterations, report.log_likelihood, report.gaussians, report.retried, report.failed));
    }
  }

  GmmTrainingResult Finish() {
    GmmTrainingResult result;
    result.alignments = passes_.AlignAll(model_, options_.align);
    double total = 0;
    for (size_t i = 0; i < source_.size(); ++i) {
      const Alignment& alignment = result.alignments[i];
      const WordIds& words = passes_.words()[i];
      total += alignment.log_likelihood;
      report_.frames += static_cast<double>(alignment.transition_ids.size());
      if (alignment.status == AlignStatus::kRetried)
        report_.retried.push_back({source_.Id(i), AlignStatusName(alignment.status)});
      if (alignment.ok()) continue;
      const bool unknown = words.ids.empty() && !words.unknown.empty();
      report_.skipped.push_back({source_.Id(i), unknown ? "words without pronunciation: " + words.unknown.front()
                                                        : AlignStatusName(alignment.status)});
    }
    report_.final_log_likelihood = report_.frames > 0 ? total / report_.frames : 0;
    result.words = passes_.words();
    result.fmllr = passes_.fmllr();
    if (model_.speaker_adaptive()) {
      // Those of too little speech have trained without one; who reads the table asks for every speaker's.
      const Matrix identity = FmllrEstimator(model_.gmm.dim()).Estimate().transform;
      for (size_t i = 0; i < source_.size(); ++i) result.fmllr.try_emplace(source_.Speaker(i), identity);
    }
    model_.lexicon = lexicon_.ToText();
    model_.lexicon_options = OptionsToConfig(lexicon_.options()).ToToml();
    result.model = std::move(model_);
    result.report = std::move(report_);
    return result;
  }

  const UtteranceSource& source_;
  const Lexicon& lexicon_;
  const GmmTrainingOptions& options_;
  uint64_t seed_;
  const std::function<void(const std::string&)>& progress_;
  GmmPasses passes_;
  GmmModel model_;
  GmmTrainingReport report_;
  int base_dim_ = 0;
  double frames_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

GmmTrainingResult TrainGmm(const UtteranceSource& source, const Lexicon& lexicon, const GmmTrainingOptions& options,
                           int num_threads, uint64_t seed, const std::function<void(const std::string&)>& progress,
                           Team& team) {
  return Trainer(source, lexicon, options, num_threads, seed, progress, team).Run();
}

}  // namespace antiphon::hmm
