// Boosted MMI training of mixtures against every path of small lattices, and what it must leave alone.
#include "train/gmm_bmmi.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "hmm/gmm.h"
#include "random_matrix.h"

namespace antiphon::train {
namespace {

constexpr int kBmmiDim = 2;
constexpr int kSegments = 4;
constexpr int kSegmentFrames = 5;
constexpr int kBmmiPhones = 4;  // with silence

// Phones of one state; two Gaussians each, of phones that lie close to each other.
hmm::GmmModel BmmiModel() {
  const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
  hmm::TopologyOptions options;
  options.num_states = options.num_silence_states = 1;
  const hmm::Topology topology(phones, options);
  hmm::GmmModel model;
  model.hmm = hmm::HmmModel(phones, topology, hmm::ContextTree::Monophone(topology));
  model.transform = hmm::FeatureTransform::Identity(kBmmiDim);
  Matrix means = testing::RandomMatrix(2 * kBmmiPhones, kBmmiDim, 2);
  Matrix variances(2 * kBmmiPhones, kBmmiDim);
  for (int64_t i = 0; i < variances.size(); ++i) variances.data()[i] = 1.0F + 0.1F * static_cast<float>(i % 3);
  std::vector<int32_t> first;
  for (int32_t pdf = 0; pdf <= kBmmiPhones; ++pdf) first.push_back(2 * pdf);
  model.gmm =
      hmm::GmmSet(std::move(first), std::vector<float>(2 * kBmmiPhones, 0.5F), std::move(means), std::move(variances));
  return model;
}

int32_t TransitionOf(const hmm::HmmModel& model, int32_t pdf) {
  for (int32_t id = 1; id <= model.transitions().num_transition_ids(); ++id) {
    if (model.transitions().Pdf(id) == pdf) return id;
  }
  return 0;
}

// Frames of segments, each of a phone, and lattices in which each may be one of three phones.
struct SmallSpeech {
  SmallSpeech(const hmm::GmmModel& model, size_t count, bool alone = false) {
    for (size_t u = 0; u < count; ++u) {
      Rng rng(11, u);
      Matrix of_utterance(kSegments * kSegmentFrames, kBmmiDim);
      SequenceEntry entry;
      entry.lattice.states.resize(kSegments + 1);
      for (int s = 0; s < kSegments; ++s) {
        const auto spoken = static_cast<int32_t>(rng.Below(kBmmiPhones));
        for (int t = s * kSegmentFrames; t < (s + 1) * kSegmentFrames; ++t) {
          entry.reference.push_back(TransitionOf(model.hmm, spoken));
          for (int d = 0; d < kBmmiDim; ++d)
            of_utterance(t, d) = static_cast<float>(2.0 * std::sin(spoken + 2.0 * d) + 0.8 * rng.Normal());
        }
        for (const int other : alone ? std::vector<int>{0} : std::vector<int>{0, 1, 2}) {
          const std::vector<int32_t> ids(kSegmentFrames, TransitionOf(model.hmm, (spoken + other) % kBmmiPhones));
          entry.lattice.states[static_cast<size_t>(s)].arcs.push_back(
              {s + 1, 0, {0.2 * other, 0.0}, entry.lattice.AddAlignment(ids)});
        }
      }
      entry.lattice.states.back().is_final = true;
      frames.push_back(std::move(of_utterance));
      entries.push_back(std::move(entry));
    }
  }

  BmmiSpeech Speech() const {
    BmmiSpeech speech;
    speech.count = frames.size();
    speech.utt_id = [](size_t i) { return fmt::format("utt{}", i); };
    speech.frames = [this](size_t i) { return frames[i]; };
    speech.entry = [this](size_t i) { return entries[i]; };
    return speech;
  }

  std::vector<Matrix> frames;
  std::vector<SequenceEntry> entries;
};

BmmiOptions QuickOptions() {
  BmmiOptions options;
  options.acoustic_scale = 0.4;
  options.boost = 0.2;
  options.ebw.tau = 20;
  return options;
}

hmm::GmmModel TrainedBy(const hmm::GmmModel& initial, const BmmiSpeech& speech, const BmmiOptions& options,
                        BmmiReport* report, int threads = 1) {
  return TrainBmmi(
      initial, speech, options, threads, [](const std::string&) {}, report);
}

double LogSum(const std::vector<double>& values) {
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - most);
  return most + std::log(sum);
}

double LogLikelihood(const hmm::GmmSet& gmm, int32_t pdf, std::span<const float> x) {
  std::vector<double> terms;
  for (int g = gmm.FirstGaussian(pdf); g < gmm.FirstGaussian(pdf) + gmm.NumGaussians(pdf); ++g) {
    terms.push_back(std::log(static_cast<double>(gmm.weights()[static_cast<size_t>(g)])));
    for (int64_t d = 0; d < kBmmiDim; ++d) {
      const auto variance = static_cast<double>(gmm.variances()(g, d));
      const double distance = static_cast<double>(x[static_cast<size_t>(d)]) - static_cast<double>(gmm.means()(g, d));
      terms.back() -= 0.5 * (std::log(2 * M_PI * variance) + distance * distance / variance);
    }
  }
  return LogSum(terms);
}

// Of one utterance, by all paths in turn: the criterion, and what is left for each pdf-id of each frame.
struct ByPaths {
  double criterion = 0;
  DoubleMatrix shares{kSegments * kSegmentFrames, kBmmiPhones};  // numerator less denominator
};

ByPaths Enumerate(const hmm::GmmModel& model, const Matrix& frames, const SequenceEntry& entry,
                  const BmmiOptions& options) {
  struct Path {
    std::vector<int32_t> ids;
    double weight = 0;
  };
  std::vector<Path> paths;
  const std::function<void(int32_t, Path)> walk = [&](int32_t s, const Path& before) {
    if (entry.lattice.states[static_cast<size_t>(s)].is_final) paths.push_back(before);
    for (const decode::LatticeArc& arc : entry.lattice.states[static_cast<size_t>(s)].arcs) {
      Path path = before;
      path.weight -= arc.cost.graph;
      for (const int32_t id : entry.lattice.Alignment(arc.alignment)) {
        const size_t t = path.ids.size();
        const auto& transitions = model.hmm.transitions();
        path.weight +=
            options.acoustic_scale * LogLikelihood(model.gmm, transitions.Pdf(id), frames.Row(static_cast<int64_t>(t)));
        if (transitions.Phone(id) == transitions.Phone(entry.reference[t])) path.weight -= options.boost;
        path.ids.push_back(id);
      }
      walk(arc.next_state, path);
    }
  };
  walk(0, {});
  std::vector<double> weights;
  for (const Path& path : paths) weights.push_back(path.weight);
  const double total = LogSum(weights);
  ByPaths result;
  const auto pdf = [&](int32_t id) { return model.hmm.transitions().Pdf(id); };
  for (const Path& path : paths) {
    if (path.ids == entry.reference) result.criterion = path.weight - total;
    for (size_t t = 0; t < path.ids.size(); ++t)
      result.shares(static_cast<int64_t>(t), pdf(path.ids[t])) -= std::exp(path.weight - total);
  }
  for (size_t t = 0; t < entry.reference.size(); ++t)
    result.shares(static_cast<int64_t>(t), pdf(entry.reference[t])) += 1;
  return result;
}

TEST(GmmBmmi, IsThatOfAllPathsEnumerated) {
  const hmm::GmmModel model = BmmiModel();
  const SmallSpeech speech(model, 3);
  BmmiOptions options = QuickOptions();
  options.iterations = 1;
  BmmiReport report;
  const hmm::GmmModel trained = TrainedBy(model, speech.Speech(), options, &report);

  double criterion = 0, counted = 0;
  hmm::GmmStats numerator(model.gmm), denominator(model.gmm);
  for (size_t u = 0; u < speech.frames.size(); ++u) {
    const ByPaths paths = Enumerate(model, speech.frames[u], speech.entries[u], options);
    criterion += paths.criterion;
    const hmm::FrameBlocks blocks(speech.frames[u]);
    for (int64_t t = 0; t < paths.shares.rows(); ++t) {
      for (int32_t pdf = 0; pdf < kBmmiPhones; ++pdf) {
        const double share = paths.shares(t, pdf);
        const hmm::FrameWeight weight{static_cast<int>(t), std::abs(share)};
        (share > 0 ? numerator : denominator)
            .AccumulateWeighted(model.gmm, speech.frames[u], blocks, pdf, {&weight, 1});
        counted += std::max(share, 0.0);
      }
    }
  }
  const double frames = 3.0 * kSegments * kSegmentFrames;
  ASSERT_EQ(report.iterations.size(), 1U);
  EXPECT_EQ(report.utterances, 3);
  EXPECT_EQ(report.frames, frames);
  EXPECT_NEAR(report.iterations[0].criterion, criterion / frames, 1e-5);
  EXPECT_LT(criterion / frames, -0.01);
  EXPECT_NEAR(report.iterations[0].numerator, counted / frames, 1e-5);
  EXPECT_NEAR(report.iterations[0].denominator, counted / frames, 1e-5);
  hmm::EbwReport update;
  const hmm::GmmSet expected = hmm::ExtendedBaumWelch(model.gmm, numerator, denominator, options.ebw, &update);
  EXPECT_EQ(report.iterations[0].update.updated, update.updated);
  for (int g = 0; g < expected.num_gaussians(); ++g) {
    EXPECT_NEAR(trained.gmm.weights()[static_cast<size_t>(g)], expected.weights()[static_cast<size_t>(g)], 1e-5);
    for (int d = 0; d < kBmmiDim; ++d) {
      EXPECT_NEAR(trained.gmm.means()(g, d), expected.means()(g, d), 1e-5);
      EXPECT_NEAR(trained.gmm.variances()(g, d), expected.variances()(g, d), 1e-5);
    }
  }
}

TEST(GmmBmmi, CriterionRises) {
  const hmm::GmmModel model = BmmiModel();
  const SmallSpeech speech(model, 40);
  const BmmiOptions options = QuickOptions();
  BmmiReport report;
  TrainedBy(model, speech.Speech(), options, &report);
  for (size_t i = 1; i < report.iterations.size(); ++i)
    EXPECT_GT(report.iterations[i].criterion, report.iterations[i - 1].criterion) << i;
  EXPECT_GT(report.iterations.back().criterion, 0.5 * report.iterations.front().criterion);
}

TEST(GmmBmmi, LeavesMixturesThatNothingCompetesWith) {
  const hmm::GmmModel model = BmmiModel();
  const SmallSpeech speech(model, 5, /*alone=*/true);
  for (const double boost : {0.0, 0.1}) {
    BmmiOptions options = QuickOptions();
    options.boost = boost;
    BmmiReport report;
    EXPECT_TRUE(TrainedBy(model, speech.Speech(), options, &report).gmm == model.gmm);
    EXPECT_NEAR(report.iterations.back().criterion, 0, 1e-9);
  }
}

TEST(GmmBmmi, GivesTheSameBitsWithAnyNumberOfThreads) {
  const hmm::GmmModel model = BmmiModel();
  const SmallSpeech speech(model, 21);
  BmmiReport report;
  const hmm::GmmModel one = TrainedBy(model, speech.Speech(), QuickOptions(), &report, 1);
  EXPECT_TRUE(TrainedBy(model, speech.Speech(), QuickOptions(), &report, 3).gmm == one.gmm);
  EXPECT_TRUE(TrainedBy(model, speech.Speech(), QuickOptions(), &report, 16).gmm == one.gmm);
  EXPECT_FALSE(one.gmm == model.gmm);
}

TEST(GmmBmmi, NamesUtterancesWhoseLatticeLacksTheReference) {
  const hmm::GmmModel model = BmmiModel();
  SmallSpeech broken(model, 4);
  decode::Lattice& lattice = broken.entries[2].lattice;
  lattice.states[1].arcs.erase(lattice.states[1].arcs.begin());
  BmmiReport report;
  TrainedBy(model, broken.Speech(), QuickOptions(), &report);
  EXPECT_EQ(report.without_reference, std::vector<std::string>{"utt2"});
  EXPECT_EQ(report.utterances, 3);
  for (const size_t u : {0, 1, 3}) {
    auto& arcs = broken.entries[u].lattice.states[1].arcs;
    arcs.erase(arcs.begin());
  }
  try {
    TrainedBy(model, broken.Speech(), QuickOptions(), &report);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("none of 4 utterances"));
  }
}

TEST(GmmBmmi, NamesTheUtteranceThatDoesNotFit) {
  const hmm::GmmModel model = BmmiModel();
  const auto message = [&](const SmallSpeech& speech) {
    BmmiReport report;
    try {
      TrainedBy(model, speech.Speech(), QuickOptions(), &report);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  SmallSpeech shorter(model, 3);
  shorter.frames[1] = testing::RandomMatrix(kSegments * kSegmentFrames - 1, kBmmiDim, 1);
  EXPECT_THAT(message(shorter), ::testing::AllOf(::testing::HasSubstr("utt1"), ::testing::HasSubstr("19")));
  SmallSpeech foreign(model, 3);
  for (int32_t& id : foreign.entries[2].lattice.alignments) id += 100;
  for (int32_t& id : foreign.entries[2].reference) id += 100;
  EXPECT_THAT(message(foreign), ::testing::AllOf(::testing::HasSubstr("utt2"), ::testing::HasSubstr("transition-id")));
}

}  // namespace
}  // namespace antiphon::train
