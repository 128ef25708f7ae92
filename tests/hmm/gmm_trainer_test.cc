#include "hmm/gmm_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "hmm/gmm_fmllr.h"
#include "hmm/gmm_passes.h"
#include "small_gmm.h"

namespace antiphon::hmm {
namespace {

constexpr std::string_view kLexicon =
    "<UNK> SPN\nTIP T IH P\nPIT P IH T\nSIP S IH P\nSAP S AE P\nPASS P AE S\nTAP T AE P\n";

// Speech of a known model: each phone state draws frames about its own mean; speakers shift and scale all frames.
class SyntheticSpeech : public UtteranceSource {
 public:
  SyntheticSpeech(const Lexicon& lexicon, int num_utterances, uint64_t seed) {
    Rng rng(seed);
    const std::vector<std::string> vocabulary = {"TIP", "PIT", "SIP", "SAP", "PASS", "TAP"};
    for (int u = 0; u < num_utterances; ++u) {
      ids_.push_back("utt" + std::to_string(100 + u));
      speakers_.push_back("speaker" + std::to_string(u % 3));
      std::vector<std::string>& words = words_.emplace_back();
      std::vector<AlignedPhone> phones;
      std::vector<std::vector<float>> frames;
      const auto say = [&](int32_t phone, int word) {
        phones.push_back({phone, static_cast<int>(frames.size()), 0, word});
        for (int state = 0; state < 3; ++state) {
          const auto length = 2 + static_cast<int>(rng.Below(4));
          for (int t = 0; t < length; ++t) frames.push_back(Frame(phone, state, u % 3, rng));
          phones.back().num_frames += length;
        }
      };
      say(lexicon.optional_silence(), -1);
      for (int w = 0; w < 4; ++w) {
        words.push_back(vocabulary[rng.Below(vocabulary.size())]);
        for (const int32_t phone : lexicon.PronunciationsOf(lexicon.FindWord(words.back()))[0].phones) say(phone, w);
        if (rng.Below(3) == 0) say(lexicon.optional_silence(), -1);
      }
      if (phones.back().phone != lexicon.optional_silence()) say(lexicon.optional_silence(), -1);
      truth_.push_back(phones);
      Matrix features(static_cast<int64_t>(frames.size()), kDim);
      for (size_t t = 0; t < frames.size(); ++t)
        std::copy(frames[t].begin(), frames[t].end(), features.Row(static_cast<int64_t>(t)).begin());
      features_.push_back(std::move(features));
    }
  }

  size_t size() const override { return ids_.size(); }
  const std::string& Id(size_t i) const override { return ids_[i]; }
  const std::string& Speaker(size_t i) const override { return speakers_[i]; }
  const std::vector<std::string>& Words(size_t i) const override { return words_[i]; }
  Matrix Features(size_t i) const override { return features_[i]; }

  const std::vector<AlignedPhone>& Truth(size_t i) const { return truth_[i]; }
  void Say(size_t i, std::vector<std::string> words) { words_[i] = std::move(words); }
  void SaidBy(size_t i, std::string speaker) { speakers_[i] = std::move(speaker); }
  void Cut(size_t i, int64_t frames) { features_[i] = Matrix(features_[i].view().Rows(0, frames)); }

 private:
  static constexpr int kDim = 6;
  static std::vector<float> Frame(int32_t phone, int state, int speaker, Rng& rng) {
    Rng place(99, static_cast<uint64_t>(phone * 8 + state / 2));
    std::vector<float> frame;
    for (int d = 0; d < kDim; ++d) {
      const double mean = 4 * place.Normal();
      frame.push_back(static_cast<float>((1 + 0.1 * speaker) * (mean + rng.Normal()) +
                                         0.8 * (speaker - 1) * (d % 2 == 0 ? 1 : -1)));
    }
    return frame;
  }

  std::vector<std::string> ids_;
  std::vector<std::string> speakers_;
  std::vector<std::vector<std::string>> words_;
  std::vector<Matrix> features_;
  std::vector<std::vector<AlignedPhone>> truth_;
};

GmmTrainingOptions QuickOptions(const std::string& last_stage) {
  GmmTrainingOptions options;
  options.last_stage = last_stage;
  options.mono = {12, 60, 0.25, {1, 2, 3, 4, 6, 8, 10}};
  options.tri = {8, 80, 0.25, {4}};
  options.lda_mllt = {8, 80, 0.25, {4}};
  options.sat = {8, 80, 0.25, {4}};
  options.mllt_iterations = {2, 4};
  options.fmllr_iterations = {2, 4};
  options.lda_dim = 8;
  options.splice = 1;
  options.min_fmllr_frames = 50;
  options.topology.num_silence_states = 3;
  options.tree.num_leaves = 30;
  options.tree.min_frames = 20;
  return options;
}

class GmmTrainer : public ::testing::Test {
 protected:
  Lexicon lexicon_ = Lexicon::Parse(kLexicon, "toy");
  SyntheticSpeech speech_{lexicon_, 60, 5};
};

// Share of phone boundaries within one frame of the truth.
double BoundariesFound(const SyntheticSpeech& speech, const GmmTrainingResult& result) {
  double found = 0;
  double total = 0;
  for (size_t i = 0; i < speech.size(); ++i) {
    for (const AlignedPhone& truth : speech.Truth(i)) {
      ++total;
      for (const AlignedPhone& phone : result.alignments[i].phones) {
        if (phone.phone == truth.phone && phone.word_position == truth.word_position &&
            std::abs(phone.begin_frame - truth.begin_frame) <= 1) {
          ++found;
          break;
        }
      }
    }
  }
  return found / total;
}

TEST_F(GmmTrainer, FindsThePhonesOfSyntheticSpeechFromAFlatStart) {
  const GmmTrainingResult result = TrainGmm(speech_, lexicon_, QuickOptions("mono"), 2, 1);
  EXPECT_TRUE(result.report.skipped.empty());
  EXPECT_GT(BoundariesFound(speech_, result), 0.95);
}

TEST_F(GmmTrainer, GoesThroughAllStagesWithRisingLikelihood) {
  const GmmTrainingResult result = TrainGmm(speech_, lexicon_, QuickOptions("sat"), 2, 1);
  ASSERT_EQ(result.report.stages.size(), 4u);
  EXPECT_GT(BoundariesFound(speech_, result), 0.95);
  for (const StageReport& stage : result.report.stages) {
    const auto& iterations = stage.iterations;
    for (size_t i = 1; i < iterations.size(); ++i) {
      // Transforms change the space in which the likelihood is measured; splits may cost a little at first.
      if (iterations[i].transform_gain != 0) continue;
      const bool split = iterations[i - 1].gaussians > (i > 1 ? iterations[i - 2].gaussians : 0);
      EXPECT_GE(iterations[i].log_likelihood, iterations[i - 1].log_likelihood - (split ? 0.02 : 1e-4))
          << stage.stage << " " << i;
    }
    EXPECT_GT(iterations.back().log_likelihood, iterations.front().log_likelihood) << stage.stage;
  }
  EXPECT_TRUE(result.model.speaker_adaptive());
  EXPECT_EQ(result.fmllr.size(), 3u);
  EXPECT_LE(result.model.hmm.num_pdfs(), 30);

  // A speaker's transform from a first pass makes the adapted Gaussians fit better than the first pass's.
  const size_t i = 2;
  const Matrix features = speech_.Features(i);
  std::vector<SpeakerUtterance> utterances;
  std::vector<Matrix> kept;
  for (size_t u = i; u < speech_.size(); u += 3) kept.push_back(speech_.Features(u));
  for (size_t u = i, k = 0; u < speech_.size(); u += 3, ++k)
    utterances.push_back(testing::InParts(kept[k], result.alignments[u].transition_ids));
  const Matrix transform = EstimateSpeakerTransform(result.model, utterances, 50);
  const Matrix frames = result.model.transform.Apply(features);
  Matrix adapted(frames.rows(), frames.cols());
  ApplyAffine(transform, frames, adapted);
  GmmScorer first(*result.model.first_pass, frames);
  GmmScorer second(result.model.gmm, adapted);
  const Alignment before = Align(result.model.hmm, lexicon_, result.words[i].ids, first, {});
  const Alignment after = Align(result.model.hmm, lexicon_, result.words[i].ids, second, {});
  EXPECT_GT(after.log_likelihood, before.log_likelihood);
}

// Whoever reads the features of this training needs a transform of each speaker.
TEST_F(GmmTrainer, HasATransformOfSpeakersWhoSayLittle) {
  speech_.SaidBy(7, "brief");
  GmmTrainingOptions options = QuickOptions("sat");
  options.min_fmllr_frames = 500;  // an utterance has some 130
  const GmmTrainingResult result = TrainGmm(speech_, lexicon_, options, 2, 1);
  ASSERT_EQ(result.fmllr.size(), 4u);
  for (const auto& [speaker, transform] : result.fmllr) {
    ASSERT_EQ(transform.cols(), transform.rows() + 1);
    bool identity = true;
    for (int64_t r = 0; r < transform.rows(); ++r) {
      for (int64_t c = 0; c < transform.cols(); ++c) identity = identity && transform(r, c) == (r == c ? 1.0F : 0.0F);
    }
    EXPECT_EQ(identity, speaker == "brief") << speaker;
  }
  EXPECT_TRUE(TrainGmm(speech_, lexicon_, QuickOptions("mono"), 2, 1).fmllr.empty());
}

TEST_F(GmmTrainer, GivesTheSameBitsWithAnyNumberOfThreads) {
  const GmmTrainingResult one = TrainGmm(speech_, lexicon_, QuickOptions("sat"), 1, 7);
  const GmmTrainingResult four = TrainGmm(speech_, lexicon_, QuickOptions("sat"), 4, 7);
  EXPECT_EQ(one.model.gmm, four.model.gmm);
  EXPECT_EQ(one.model.hmm, four.model.hmm);
  EXPECT_EQ(one.report.final_log_likelihood, four.report.final_log_likelihood);
  for (size_t i = 0; i < speech_.size(); ++i)
    EXPECT_EQ(one.alignments[i].transition_ids, four.alignments[i].transition_ids);
}

// The first of two, which hears nothing of the other.
class LostTeam : public Team {
 public:
  int size() const override { return 2; }
  int index() const override { return 0; }
  std::vector<std::string> Exchange(std::string mine, Spread) override {
    sent = mine.size();
    throw PeerError("the other is gone");
  }
  size_t sent = 0;
};

TEST_F(GmmTrainer, ExchangesAlignmentsOnlyWhereTheyAreNew) {
  const GmmModel model = TrainGmm(speech_, lexicon_, QuickOptions("mono"), 2, 1).model;
  LostTeam team;
  GmmPasses passes(speech_, lexicon_, true, 1, team);
  EXPECT_THROW(passes.AlignEquallyAll(model.hmm, 1), PeerError);
  std::vector<double> transitions;
  GmmPasses::Counts counts;
  EXPECT_THROW(passes.AlignAndAccumulate(model, nullptr, &transitions, &counts), PeerError);
  const size_t without = team.sent;
  const AlignOptions align;
  EXPECT_THROW(passes.AlignAndAccumulate(model, &align, &transitions, &counts), PeerError);
  size_t ids = 0;
  for (const std::vector<int32_t>& alignment : passes.alignments()) ids += alignment.size();
  EXPECT_GT(ids, 1000u);
  EXPECT_GE(team.sent, without + ids * sizeof(int32_t));
}

TEST_F(GmmTrainer, LeavesOutWhatCannotBeAlignedAndSaysWhy) {
  speech_.Say(3, {"TIP", "ELEPHANT"});
  speech_.Cut(5, 4);
  speech_.Cut(6, 0);
  GmmTrainingOptions options = QuickOptions("mono");
  options.map_unknown_words = false;
  const GmmTrainingResult result = TrainGmm(speech_, lexicon_, options, 2, 1);
  ASSERT_EQ(result.report.skipped.size(), 3u);
  EXPECT_EQ(result.report.skipped[0].utt_id, "utt103");
  EXPECT_EQ(result.report.skipped[0].reason, "words without pronunciation: ELEPHANT");
  EXPECT_EQ(result.report.skipped[1].reason, "too short for its transcript");
  EXPECT_EQ(result.report.unknown_words.at("ELEPHANT"), 1);
  for (size_t i = 0; i < speech_.size(); ++i) speech_.Say(i, {"ELEPHANT"});
  EXPECT_THROW(TrainGmm(speech_, lexicon_, options, 2, 1), InputError);
}

TEST_F(GmmTrainer, TrainsTriphonesOfPositionDependentPhones) {
  LexiconOptions lexicon_options;
  lexicon_options.position_dependent = true;
  const Lexicon positions = Lexicon::Parse(kLexicon, "toy", lexicon_options);
  const GmmTrainingResult result = TrainGmm(speech_, positions, QuickOptions("tri"), 2, 1);
  EXPECT_TRUE(result.report.skipped.empty());
  const Lexicon again = Lexicon::Parse(result.model.lexicon, "model", lexicon_options, result.model.hmm.phones());
  EXPECT_EQ(again.num_words(), positions.num_words());
}

}  // namespace
}  // namespace antiphon::hmm
