#include "hmm/aligner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "hmm/hmm_file.h"
#include "math/matrix.h"
#include "math/safetensors.h"
#include "temporary_folder.h"

namespace antiphon::hmm {
namespace {

class TableScores : public ScoreSource {
 public:
  TableScores(Matrix table, bool dense) : table_(std::move(table)), dense_(dense) {}
  int num_pdfs() const override { return static_cast<int>(table_.cols()); }
  int num_frames_ready() const override { return static_cast<int>(table_.rows()); }
  bool IsLastFrame(int frame) const override { return frame + 1 == num_frames_ready(); }
  float LogLikelihood(int frame, int32_t pdf_id) override { return table_(frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override {
    return dense_ ? std::span<const float>(table_.Row(frame)) : std::span<const float>();
  }

 private:
  Matrix table_;
  bool dense_;
};

Matrix RandomScores(int frames, int pdfs, double scale, uint64_t seed) {
  Rng rng(seed);
  Matrix scores(frames, pdfs);
  for (int64_t i = 0; i < scores.size(); ++i) scores.data()[i] = static_cast<float>(scale * rng.Normal());
  return scores;
}

HmmModel Model(const Lexicon& lexicon, int states, int silence_states) {
  TopologyOptions options;
  options.num_states = states;
  options.num_silence_states = silence_states;
  const Topology topology(lexicon.phones(), options);
  return {lexicon.phones(), topology, ContextTree::Monophone(topology)};
}

// A triphone tree in which some phones' states depend on their neighbours.
HmmModel TriphoneModel(const Lexicon& lexicon) {
  const HmmModel mono = Model(lexicon, 2, 2);
  std::vector<TreeNode> nodes(mono.tree().nodes());
  for (TreeNode& node : nodes) node = TreeNode{};
  std::vector<TreeNode> leaves;
  for (size_t n = 0; n < nodes.size(); ++n) {
    nodes[n].position = n % 2 == 0 ? 0 : 2;
    nodes[n].phones = {0, 1, 2, 3};
    nodes[n].yes = static_cast<int32_t>(nodes.size() + 2 * n);
    nodes[n].no = nodes[n].yes + 1;
  }
  const size_t roots = nodes.size();
  for (size_t n = 0; n < 2 * roots; ++n) nodes.emplace_back().pdf_id = static_cast<int32_t>(n);
  return {lexicon.phones(), mono.topology(), ContextTree(3, nodes, mono.tree().roots())};
}

// One state per phone that emits otherwise when it is entered than when it stays, depending on the left phone.
HmmModel ChainModel(const Lexicon& lexicon) {
  const Topology topology = Topology::Chain(lexicon.phones());
  std::vector<TreeNode> nodes;
  std::vector<std::vector<int32_t>> roots(1);
  int32_t num_pdfs = 0;
  for (int32_t phone = 1; phone <= lexicon.phones().num_phones(); ++phone) {
    roots.emplace_back();
    for (int c = 0; c < 2; ++c) {
      const auto root = static_cast<int32_t>(nodes.size());
      roots.back().push_back(root);
      TreeNode& node = nodes.emplace_back();
      node.phones = {0, 1 + c};
      node.yes = root + 1;
      node.no = root + 2;
      for (int leaf = 0; leaf < 2; ++leaf) nodes.emplace_back().pdf_id = num_pdfs++;
    }
  }
  return {lexicon.phones(), topology, ContextTree(2, nodes, roots)};
}

double ScoreOfPath(const HmmModel& model, std::span<const int32_t> ids, const Matrix& scores,
                   const AlignOptions& options) {
  const TransitionModel& t = model.transitions();
  double sum = 0;
  for (size_t n = 0; n < ids.size(); ++n) {
    sum += options.acoustic_scale * static_cast<double>(scores(static_cast<int64_t>(n), t.Pdf(ids[n])));
    if (t.IsSelfLoop(ids[n])) {
      sum += options.self_loop_scale * static_cast<double>(t.LogProb(ids[n]));
    } else {
      sum += options.transition_scale * static_cast<double>(t.LogProbWithoutSelfLoop(ids[n])) +
             options.self_loop_scale * static_cast<double>(t.LeaveLogProb(t.TransitionState(ids[n])));
    }
  }
  return sum;
}

// All phone sequences of the transcript, with the cost of pauses and variants.
void SayAll(const Lexicon& lexicon, std::span<const int32_t> words,
            const std::function<void(const std::vector<int32_t>&, double)>& visit) {
  const double pause = -std::log(lexicon.options().silence_probability);
  const double no_pause = -std::log(1 - lexicon.options().silence_probability);
  std::function<void(size_t, std::vector<int32_t>, double)> say = [&](size_t w, const std::vector<int32_t>& phones,
                                                                      double cost) {
    for (const bool silent : {false, true}) {
      std::vector<int32_t> longer = phones;
      if (silent) longer.push_back(lexicon.optional_silence());
      const double sum = cost + (silent ? pause : no_pause);
      if (w == words.size()) {
        if (!longer.empty()) visit(longer, sum);
        continue;
      }
      for (const Pronunciation& entry : lexicon.PronunciationsOf(words[w])) {
        std::vector<int32_t> with_word = longer;
        with_word.insert(with_word.end(), entry.phones.begin(), entry.phones.end());
        say(w + 1, with_word, sum + static_cast<double>(entry.cost));
      }
    }
  };
  say(0, {}, 0);
}

// Best score over every phone sequence, state path and duration.
double ExhaustiveBest(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words,
                      const Matrix& scores, const AlignOptions& options) {
  double best = -std::numeric_limits<double>::infinity();
  const double cost_scale = model.topology().IsChain() ? options.acoustic_scale : 1.0;
  const auto num_frames = static_cast<size_t>(scores.rows());
  SayAll(lexicon, words, [&](const std::vector<int32_t>& phones, double cost) {
    std::vector<int32_t> ids;
    std::function<void(size_t, size_t)> walk = [&](size_t phone, size_t state) {
      const auto at = [&](size_t p) { return p < phones.size() ? phones[p] : 0; };
      const int32_t window[] = {phone > 0 ? phones[phone - 1] : 0, phones[phone], at(phone + 1)};
      const int32_t ts = model.TransitionState(model.Window(window), static_cast<int>(state));
      const TopologyEntry& entry = model.topology().Entry(phones[phone]);
      for (size_t t = 0; t < entry[state].transitions.size(); ++t) {
        const auto to = static_cast<size_t>(entry[state].transitions[t].to);
        if (to == state) continue;
        const size_t before = ids.size();
        ids.push_back(model.transitions().TransitionId(ts, static_cast<int>(t)));
        while (ids.size() <= num_frames) {
          if (to + 1 < entry.size()) {
            walk(phone, to);
          } else if (phone + 1 < phones.size()) {
            walk(phone + 1, 0);
          } else if (ids.size() == num_frames) {
            best = std::max(best, ScoreOfPath(model, ids, scores, options) - cost_scale * cost);
          }
          ids.push_back(model.transitions().SelfLoopOf(ts));
        }
        ids.resize(before);
      }
    };
    walk(0, 0);
  });
  return best;
}

void ExpectEqualsExhaustiveSearch(const HmmModel& model, const Lexicon& lexicon, const std::vector<int32_t>& words,
                                  bool dense) {
  AlignOptions options;
  options.beam = 1e6;
  options.acoustic_scale = 0.7;
  options.self_loop_scale = 0.3;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Matrix table = RandomScores(9, model.num_pdfs(), 3.0, seed);
    TableScores scores(table, dense);
    const Alignment alignment = Align(model, lexicon, words, scores, options);
    ASSERT_EQ(alignment.status, AlignStatus::kOk);
    EXPECT_NEAR(alignment.score, ExhaustiveBest(model, lexicon, words, table, options), 1e-5) << "seed " << seed;
    double acoustic = 0;
    for (size_t t = 0; t < alignment.transition_ids.size(); ++t)
      acoustic +=
          static_cast<double>(table(static_cast<int64_t>(t), model.transitions().Pdf(alignment.transition_ids[t])));
    EXPECT_NEAR(alignment.log_likelihood, acoustic, 1e-4);
    // The phones it reports are those of its transition-ids.
    const std::vector<PhoneSegment> segments = model.SplitToPhones(alignment.transition_ids);
    ASSERT_EQ(segments.size(), alignment.phones.size());
    for (size_t p = 0; p < segments.size(); ++p) {
      EXPECT_EQ(segments[p].phone, alignment.phones[p].phone);
      EXPECT_EQ(segments[p].begin_frame, alignment.phones[p].begin_frame);
      EXPECT_EQ(segments[p].num_frames, alignment.phones[p].num_frames);
    }
  }
}

TEST(Aligner, FindsTheBestOfAllPaths) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 X Y\nA 0.4 Y\nB 1.0 Y X\n", "toy");
  ExpectEqualsExhaustiveSearch(Model(lexicon, 2, 1), lexicon, {1, 2}, true);
  ExpectEqualsExhaustiveSearch(Model(lexicon, 1, 4), lexicon, {2}, false);
  ExpectEqualsExhaustiveSearch(Model(lexicon, 1, 2), lexicon, {}, false);
}

TEST(Aligner, FindsTheBestOfAllPathsInContext) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 X Y\nA 0.4 Y\nB 1.0 Y X\n", "toy");
  ExpectEqualsExhaustiveSearch(TriphoneModel(lexicon), lexicon, {1, 2}, false);
  ExpectEqualsExhaustiveSearch(TriphoneModel(lexicon), lexicon, {1}, true);
}

TEST(Aligner, FindsTheBestOfAllPathsWhereEnteringIsNotStaying) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 X Y\nA 0.4 Y\nB 1.0 Y X\nC 1.0 X X\n", "toy");
  ExpectEqualsExhaustiveSearch(ChainModel(lexicon), lexicon, {1, 2}, false);
  ExpectEqualsExhaustiveSearch(ChainModel(lexicon), lexicon, {3, 1, 3}, true);
}

// Against a chain model's scores, a pronunciation that is e⁵ times likelier weighs 5, at whatever scale.
TEST(Aligner, WeighsPronunciationsAsTheModelWasTrained) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 X\nA 0.006737947 Y\n", "toy");
  for (const bool chain : {false, true}) {
    const HmmModel model = chain ? ChainModel(lexicon) : Model(lexicon, 1, 1);
    const auto pronounced = [&](double better) {
      Matrix table(4, model.num_pdfs());
      for (int64_t t = 0; t < table.rows(); ++t) {
        for (int32_t pdf = 0; pdf < model.num_pdfs(); ++pdf) table(t, pdf) = -100.0F;
      }
      const TransitionModel& transitions = model.transitions();
      for (int32_t id = 1; id <= transitions.num_transition_ids(); ++id) {
        const int32_t phone = transitions.Phone(id);
        if (lexicon.phones().IsSilence(phone)) continue;
        const bool likely = lexicon.phones().Name(phone) == "X";
        for (int64_t t = 0; t < table.rows(); ++t) {
          table(t, transitions.Pdf(id)) = likely ? 0.0F : static_cast<float>(better / 4);
        }
      }
      TableScores scores(table, true);
      const Alignment found = Align(model, lexicon, std::vector<int32_t>{1}, scores, {.beam = 1e6});
      return found.phones.size() == 1 ? lexicon.phones().Name(found.phones[0].phone) : "several phones";
    };
    EXPECT_EQ(pronounced(chain ? 4.0 : 40.0), "X");
    EXPECT_EQ(pronounced(chain ? 6.0 : 60.0), "Y");
  }
}

TEST(Aligner, RecoversTheTruthOfSyntheticSpeech) {
  const Lexicon lexicon = Lexicon::Parse("ONE W AH N\nTWO T UW\nSIX S IH K S\n", "toy");
  const HmmModel model = Model(lexicon, 3, 5);
  Rng rng(3);
  const std::vector<int32_t> words = {3, 1, 2};
  const Alignment truth = AlignEqually(model, lexicon, words, 173, rng);
  ASSERT_TRUE(truth.ok());
  Matrix table = RandomScores(173, model.num_pdfs(), 1.0, 4);
  for (size_t t = 0; t < truth.transition_ids.size(); ++t)
    table(static_cast<int64_t>(t), model.transitions().Pdf(truth.transition_ids[t])) += 30;
  AlignOptions options;
  options.acoustic_scale = 1.0;
  TableScores scores(table, true);
  const Alignment found = Align(model, lexicon, words, scores, options);
  EXPECT_EQ(found.phones, truth.phones);
  EXPECT_EQ(model.ToPdfs(found.transition_ids), model.ToPdfs(truth.transition_ids));
}

TEST(Aligner, RetriesWithTheWiderBeamAndSaysSo) {
  const Lexicon lexicon = Lexicon::Parse("A X\nB Y\n", "toy");
  const HmmModel model = Model(lexicon, 1, 1);
  // All frames but the last look like a pause, far more than like the words that must come.
  Matrix table(20, model.num_pdfs());
  for (int64_t t = 0; t < 20; ++t) {
    for (int64_t p = 0; p < table.cols(); ++p) table(t, p) = p == 0 ? 0.0F : -40.0F;
  }
  AlignOptions options;
  options.acoustic_scale = 1.0;
  options.beam = 30;
  options.retry_beam = 200;
  TableScores scores(table, true);
  const std::vector<int32_t> words = {1, 2};
  EXPECT_EQ(Align(model, lexicon, words, scores, options).status, AlignStatus::kRetried);
  options.retry_beam = 0;
  EXPECT_EQ(Align(model, lexicon, words, scores, options).status, AlignStatus::kNoPath);
}

TEST(Aligner, RefusesUtterancesThatAreTooShortAndScoresThatAreNoNumbers) {
  const Lexicon lexicon = Lexicon::Parse("A X Y\n", "toy");
  const HmmModel model = Model(lexicon, 3, 5);
  const std::vector<int32_t> words = {1};
  TableScores scores(RandomScores(5, model.num_pdfs(), 1, 1), true);
  EXPECT_EQ(Align(model, lexicon, words, scores, {}).status, AlignStatus::kTooShort);
  Rng rng(1);
  EXPECT_EQ(AlignEqually(model, lexicon, words, 5, rng).status, AlignStatus::kTooShort);
  Matrix bad = RandomScores(8, model.num_pdfs(), 1, 1);
  for (int64_t p = 0; p < bad.cols(); ++p) bad(3, p) = std::numeric_limits<float>::quiet_NaN();
  TableScores broken(bad, true);
  EXPECT_THROW(Align(model, lexicon, words, broken, {}), InputError);
}

TEST(Aligner, ShiftingAllScoresOfAFrameLeavesThePathAlone) {
  const Lexicon lexicon = Lexicon::Parse("A X Y\nB Y X\n", "toy");
  const HmmModel model = Model(lexicon, 3, 5);
  const std::vector<int32_t> words = {1, 2, 1};
  Matrix table = RandomScores(60, model.num_pdfs(), 2, 9);
  TableScores scores(table, true);
  const Alignment one = Align(model, lexicon, words, scores, {});
  for (int64_t t = 0; t < table.rows(); ++t) {
    for (float& s : table.Row(t)) s -= static_cast<float>(t % 7);
  }
  TableScores shifted(table, false);
  EXPECT_EQ(Align(model, lexicon, words, shifted, {}).transition_ids, one.transition_ids);
}

TEST(HmmModel, ConvertsAlignmentsBetweenTrees) {
  const Lexicon lexicon = Lexicon::Parse("A X Y\nB Y X\n", "toy");
  const HmmModel mono = Model(lexicon, 2, 2);
  const HmmModel tri = TriphoneModel(lexicon);
  Rng rng(1);
  const std::vector<int32_t> words = {1, 2, 2};
  const Alignment alignment = AlignEqually(mono, lexicon, words, 40, rng);
  const std::vector<int32_t> converted = mono.ConvertAlignment(alignment.transition_ids, tri);
  EXPECT_EQ(tri.SplitToPhones(converted), mono.SplitToPhones(alignment.transition_ids));
  Rng again(1);
  EXPECT_EQ(converted, AlignEqually(tri, lexicon, words, 40, again).transition_ids);
  EXPECT_EQ(tri.ConvertAlignment(converted, mono), alignment.transition_ids);
}

TEST(HmmModel, SurvivesJsonAndRefusesWhatIsNoModel) {
  const Lexicon lexicon = Lexicon::Parse("A X Y\nB Y X\n", "toy");
  HmmModel model = TriphoneModel(lexicon);
  std::vector<double> counts(static_cast<size_t>(model.transitions().num_transition_ids()) + 1, 7);
  model.transitions().Update(counts, {});
  EXPECT_EQ(HmmModel::FromJson(model.ToJson()), model);
  std::string json = model.ToJson();
  EXPECT_THROW(HmmModel::FromJson(json.substr(0, json.size() / 2)), InputError);
  EXPECT_THROW(HmmModel::FromJson("{}"), InputError);
}

TEST(HmmFile, IsAModelOrJsonWhateverItsName) {
  const testing::TemporaryFolder folder;
  const HmmModel model = TriphoneModel(Lexicon::Parse("A X Y\nB Y X\n", "toy"));
  WriteFileAtomically(folder / "hmm", " \n" + model.ToJson());
  EXPECT_EQ(LoadHmm(folder / "hmm"), model);
  const auto write = [&](const char* name, const char* key, const std::string& value) {
    SafetensorsWriter writer;
    writer.SetMetadata(key, value);
    writer.Write(folder / name);
    return folder / name;
  };
  EXPECT_EQ(FindHmm(write("named.safetensors", "hmm", model.ToJson())), model);
  EXPECT_EQ(FindHmm(write("without-ending", "hmm", model.ToJson())), model);
  const auto without = write("without.safetensors", "hmm", "");
  EXPECT_EQ(FindHmm(without), std::nullopt);
  EXPECT_THROW(LoadHmm(without), InputError);
  EXPECT_THROW(FindHmm(write("other.safetensors", "speaker", "ann")), InputError);
  WriteFileAtomically(folder / "text", "A X Y\n");
  EXPECT_THROW(FindHmm(folder / "text"), InputError);
}

TEST(TransitionModel, FloorsAndNeedsFrames) {
  const Lexicon lexicon = Lexicon::Parse("A X\n", "toy");
  HmmModel model = Model(lexicon, 3, 5);
  TransitionModel& t = model.transitions();
  std::vector<double> counts(static_cast<size_t>(t.num_transition_ids()) + 1, 0.0);
  const int32_t rare = 1;
  const int32_t state = t.TransitionState(t.num_transition_ids());
  counts[static_cast<size_t>(t.SelfLoopOf(state))] = 1000;
  counts[rare] = 2;
  const float before = t.LogProb(rare);
  EXPECT_GE(t.Update(counts, {}), 0);
  EXPECT_EQ(t.LogProb(rare), before);
  EXPECT_NEAR(std::exp(t.LogProb(t.SelfLoopOf(state))), 0.99, 1e-4);
  EXPECT_NEAR(std::exp(t.LeaveLogProb(state)), 0.01, 1e-4);
}

TEST(Priors, AddUpToOne) {
  const std::vector<double> counts = {10, 0, 30};
  double sum = 0;
  for (const float p : LogPriors(counts)) sum += std::exp(static_cast<double>(p));
  EXPECT_NEAR(sum, 1, 1e-6);
}

}  // namespace
}  // namespace antiphon::hmm
