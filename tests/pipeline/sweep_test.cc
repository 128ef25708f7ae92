// antiphon sweep's stage with trainings that are none: what is planned, who goes on, and what is done again.
#include "pipeline/sweep.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "data/frame_store.h"
#include "pipeline/sweep_space.h"
#include "report/metrics.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;
using report::SweptRun;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<SweptOption> Options(const std::string& toml) { return ReadSweptOptions(Config::Parse(toml, "vary")); }

std::string Refusal(const std::string& toml) {
  try {
    GridOf(Options(toml));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

double Number(const SweptValues& values, const std::string& key) {
  for (const auto& [name, value] : values) {
    if (name == key) return std::stod(value);
  }
  return NAN;
}

TEST(SweptOptions, MakeAGrid) {
  const std::vector<SweptValues> runs =
      GridOf(Options("rate = 'log:0.01..1/3'\nlast = '0.1 * rate'\nsize = ['[1, 2]', '3']\n"));
  ASSERT_EQ(runs.size(), 6U);
  EXPECT_THAT(runs[0], ElementsAre(Pair("rate", "0.01"), Pair("last", "0.001"), Pair("size", "[1, 2]")));
  EXPECT_THAT(runs[3], ElementsAre(Pair("rate", "0.1"), Pair("last", "0.01"), Pair("size", "3")));
  EXPECT_THAT(runs[5], ElementsAre(Pair("rate", "1"), Pair("last", "0.1"), Pair("size", "3")));
  EXPECT_EQ(GridOf(Options("a = 'int:1..8/8'\n[b]\nc = [0, 0.5]")).size(), 16U);
  // Whole numbers do not come twice, however many points are asked for.
  EXPECT_EQ(GridOf(Options("a = 'int:1..3/10'")).size(), 3U);
}

TEST(SweptOptions, AreDrawnWhereTheyMayLie) {
  const auto options = Options("l = 'log:0.001..10'\nu = '-1..1'\nn = 'int:1..4'\nm = 'log-int:8..1024'\nc = [5, 7]\n");
  const std::vector<SweptValues> runs = RandomRuns(options, 2000, 3);
  ASSERT_EQ(runs.size(), 2000U);
  int low_decade = 0;
  int below_zero = 0;
  std::vector<int> counts(5, 0);
  for (const SweptValues& run : runs) {
    const double l = Number(run, "l"), u = Number(run, "u"), n = Number(run, "n"), m = Number(run, "m");
    ASSERT_TRUE(l >= 0.001 && l <= 10 && u >= -1 && u <= 1 && m >= 8 && m <= 1024) << l << " " << u << " " << m;
    ASSERT_TRUE(n == std::trunc(n) && n >= 1 && n <= 4 && m == std::trunc(m));
    low_decade += l < 0.01;
    below_zero += u < 0;
    ++counts[static_cast<size_t>(n)];
  }
  // A quarter of the decades, half of the line: five standard deviations.
  EXPECT_NEAR(low_decade, 500, 97);
  EXPECT_NEAR(below_zero, 1000, 112);
  for (int n = 1; n <= 4; ++n) EXPECT_NEAR(counts[static_cast<size_t>(n)], 500, 97) << n;
}

TEST(SweptOptions, OfARunDependOnNothingButSeedNumberAndKey) {
  const auto few = RandomRuns(Options("l = 'log:0.001..10'"), 3, 1);
  const auto more = RandomRuns(Options("k = '0..1'\nl = 'log:0.001..10'"), 5, 1);
  for (size_t k = 0; k < few.size(); ++k) EXPECT_EQ(Number(few[k], "l"), Number(more[k], "l"));
  EXPECT_NE(Number(RandomRuns(Options("l = 'log:0.001..10'"), 1, 2)[0], "l"), Number(few[0], "l"));
}

TEST(SweptOptions, ComeOnceEach) { EXPECT_EQ(RandomRuns(Options("a = [1, 2]\nb = [3, 4]"), 100, 1).size(), 4U); }

TEST(SweptOptions, ThatCannotBeAreRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("something to vary"));
  EXPECT_THAT(Refusal("a = 'log:0..1/3'"), HasSubstr("vary.a = \"log:0..1/3\": expected a range"));
  for (const char* bad : {"'1..0/3'", "'int:0.5..2/3'", "'0..1/0'", "'0..1/2.5'", "'x..1'", "'red'", "[]", "3", "''"}) {
    EXPECT_THAT(Refusal(std::string("a = ") + bad), HasSubstr("vary.a = ")) << bad;
  }
  EXPECT_THAT(Refusal("a = '0..1'"), HasSubstr("how many points"));
  EXPECT_THAT(Refusal("rate = [1]\nb = '2 * rat'"), HasSubstr("did you mean 'rate'"));
  EXPECT_THAT(Refusal("a = ['x']\nb = '2 * a'"), HasSubstr("is no number"));
  EXPECT_THAT(Refusal("a = '0..1/200'\nb = '0..1/200'"), HasSubstr("more than 10000"));
}

// Trainings of four epochs whose loss is best at a rate of 0.1, and that diverge above 5.
class Sweeps : public ::testing::Test {
 protected:
  static constexpr int kEpochs = 4;

  Sweeps() {
    MakeStore(1);
    WriteTraining("");
    request_.training = (folder_ / "train.toml").string();
    request_.out = (folder_ / "sweep").string();
    request_.search = "grid";
    Vary("schedule.learning-rate = 'log:0.001..1/4'");
  }

  void MakeStore(float value) {
    data::FrameStoreWriter writer(folder_ / "store", 2, 2);
    Matrix features(3, 2);
    features(1, 1) = value;
    writer.Add("utt", "speaker", features, std::vector<int32_t>{0, 1, 1});
    writer.Finish();
  }
  void WriteTraining(const std::string& more) {
    WriteFileAtomically(folder_ / "train.toml",
                        fmt::format("store = '{}'\nschedule.epochs = 4\n{}", (folder_ / "store").string(), more));
  }
  void Vary(const std::string& toml) { request_.vary = Config::Parse(toml, "vary"); }

  void Train(const TrainingJob& job) {
    {
      const std::lock_guard lock(mutex_);
      seeds_.insert(job.request.seed);
    }
    const double rate = job.request.train.schedule.learning_rate;
    const fs::path out = job.request.out;
    const std::string minibatch = std::to_string(job.request.train.data.minibatch);
    const bool same = fs::exists(out / "checkpoint/minibatch") && ReadFile(out / "checkpoint/minibatch") == minibatch;
    const int done = job.request.resume && same ? std::stoi(ReadFile(out / "checkpoint/epochs")) : 0;
    report::MetricsWriter metrics(out / "metrics.jsonl", done > 0 ? fs::file_size(out / "metrics.jsonl") : 0);
    if (done == 0) metrics.Write(report::MetricsRecord("start").Set("held_out_loss", 9.0));
    for (int epoch = done + 1; epoch <= kEpochs; ++epoch) {
      {
        const std::lock_guard lock(mutex_);
        trained_.push_back({std::log10(rate), epoch});
        if (fail_after_ >= 0 && std::ssize(trained_) > fail_after_) throw IoError("the disk is full");
      }
      if (rate > 5) throw DivergenceError("no good");
      metrics.Write(Record("epoch", rate, epoch).Set("epoch", epoch));
      fs::create_directories(out / "checkpoint");
      WriteFileAtomically(out / "checkpoint/minibatch", minibatch);
      WriteFileAtomically(out / "checkpoint/epochs", std::to_string(epoch));
      if (epoch == job.request.pause_after_epochs) throw Cancelled("paused");
    }
    metrics.Write(Record("finish", rate, kEpochs));
  }

  static report::MetricsRecord Record(const std::string& kind, double rate, int epoch) {
    const double loss = std::pow(std::log10(rate) + 1, 2) + 1.0 / epoch;
    return report::MetricsRecord(kind).Set("held_out_loss", loss).Set("held_out_accuracy", 1 / (1 + loss));
  }

  std::vector<SweptRun> Run() {
    trained_.clear();
    seeds_.clear();
    return Sweep(request_, {.threads = 5,
                            .seed = seed_.value_or(1),
                            .seed_is_given = seed_.has_value(),
                            .train =
                                [this](const TrainingJob& job, int threads) {
                                  EXPECT_GE(threads, 5 / request_.at_once);
                                  Train(job);
                                },
                            .say = [](const std::string&) {}});
  }

  static std::vector<int> Order(const std::vector<SweptRun>& runs) {
    std::vector<int> order;
    for (const SweptRun& run : runs) order.push_back(run.number);
    return order;
  }

  struct Epoch {
    double decade;
    int epoch;
  };
  testing::TemporaryFolder folder_;
  SweepRequest request_;
  std::mutex mutex_;
  std::vector<Epoch> trained_;  // in order
  std::set<uint64_t> seeds_;    // of the trainings
  std::optional<uint64_t> seed_;
  int fail_after_ = -1;
};

TEST_F(Sweeps, SortByLossAndDoNothingTwice) {
  const std::vector<SweptRun> runs = Run();
  EXPECT_THAT(Order(runs), ElementsAre(3, 2, 4, 1));  // 0.1; then 0.01 and 1 as good as each other
  EXPECT_EQ(trained_.size(), 16U);
  EXPECT_NEAR(runs[0].loss, 0.25, 1e-9);
  EXPECT_EQ(runs[0].losses.size(), 5U);
  const auto json = nlohmann::json::parse(ReadFile(folder_ / "sweep/sweep.json"));
  EXPECT_EQ(json["runs"][0]["values"]["schedule.learning-rate"], 0.1);
  EXPECT_EQ(json["runs"][0]["state"], "finished");
  EXPECT_THAT(ReadFile(folder_ / "sweep/sweep.html"), HasSubstr("schedule.learning-rate"));
  EXPECT_THAT(ReadFile(folder_ / "sweep/sweep.md"), HasSubstr("| 3 | 0.1 | 0.2500 | 80.00 % | finished |"));

  EXPECT_EQ(report::ToJson(Run()), report::ToJson(runs));
  EXPECT_TRUE(trained_.empty());
  request_.with = {"data.minibatch=512"};  // another experiment
  Run();
  EXPECT_EQ(trained_.size(), 16U);
}

TEST_F(Sweeps, StartAnewWhenTheStoreWasMadeAnew) {
  request_.stop_after = {2};
  Run();
  Run();
  EXPECT_TRUE(trained_.empty());
  MakeStore(2);
  Run();
  EXPECT_EQ(trained_.size(), 4U * 2U + 2U * 2U);
  Run();
  EXPECT_TRUE(trained_.empty());
}

// The training itself finds out whether its checkpoint fits.
TEST_F(Sweeps, OfEarlierVersionsGoOnFromTheirCheckpoints) {
  Run();
  for (int run = 1; run <= 4; ++run) {
    const fs::path file = folder_ / fmt::format("sweep/run-{:04}/reached.json", run);
    auto json = nlohmann::json::parse(ReadFile(file));
    ASSERT_EQ(json.erase("files"), 1U);
    WriteFileAtomically(file, json.dump());
    WriteFileAtomically(folder_ / fmt::format("sweep/run-{:04}/checkpoint/epochs", run), "3");
  }
  Run();
  EXPECT_EQ(trained_.size(), 4U) << "the last epochs";
  EXPECT_THAT(ReadFile(folder_ / "sweep/run-0001/reached.json"), HasSubstr("store "));
}

TEST_F(Sweeps, TakeTheSeedFromWhoeverNamesIt) {
  Vary("schedule.learning-rate = [0.1]");
  Run();
  EXPECT_THAT(seeds_, ElementsAre(1));
  WriteTraining("seed = 7\n");
  Run();
  EXPECT_THAT(seeds_, ElementsAre(7));
  seed_ = 5;
  Run();
  EXPECT_THAT(seeds_, ElementsAre(5));
  request_.with = {"seed=9"};
  Run();
  EXPECT_THAT(seeds_, ElementsAre(9));
  Vary("schedule.learning-rate = [0.1]\nseed = [2, 3]");
  Run();
  EXPECT_THAT(seeds_, ElementsAre(2, 3));
}

TEST_F(Sweeps, RefuseToVaryWhatTheySetThemselves) {
  const auto refusal = [&] {
    try {
      Run();
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  Vary("out = ['a', 'b']");
  EXPECT_THAT(refusal(), HasSubstr("gives its runs 'out' itself: leave it out of `vary`"));
  Vary("threads = [1, 2]");
  EXPECT_THAT(refusal(), HasSubstr("'threads' itself"));
  Vary("schedule.learning-rate = [0.1]");
  request_.with = {"threads=2"};
  EXPECT_THAT(refusal(), HasSubstr("leave it out of `with`"));
  EXPECT_TRUE(trained_.empty());
}

TEST_F(Sweeps, LetTheBestGoOn) {
  request_.stop_after = {1, 2};
  const std::vector<SweptRun> runs = Run();
  EXPECT_THAT(Order(runs), ElementsAre(3, 2, 4, 1));
  EXPECT_EQ(runs[1].state, SweptRun::State::kGivenUp);
  EXPECT_EQ(runs[1].epochs, 2);
  EXPECT_EQ(runs[2].epochs, 1);
  EXPECT_EQ(trained_.size(), 4U + 2U + 2U);
}

TEST_F(Sweeps, SeveralAtOnceGiveTheSame) {
  request_.stop_after = {2};
  const std::string one_by_one = report::ToJson(Run());
  fs::remove_all(request_.out);
  request_.at_once = 3;
  EXPECT_EQ(report::ToJson(Run()), one_by_one);
}

TEST_F(Sweeps, GoOnAfterAnyEnd) {
  request_.stop_after = {1, 3};
  const std::string whole = report::ToJson(Run());
  const auto all = std::ssize(trained_);
  for (int end = 0; end < all; end += 3) {
    fs::remove_all(request_.out);
    fail_after_ = end;
    EXPECT_THROW(Run(), IoError);
    fail_after_ = -1;
    EXPECT_EQ(report::ToJson(Run()), whole) << end;
    EXPECT_EQ(std::ssize(trained_), all - end) << "something was done twice";
  }
}

TEST_F(Sweeps, TakeFailuresForResults) {
  Vary("schedule.learning-rate = [10, 0.1]");
  const std::vector<SweptRun> runs = Run();
  EXPECT_THAT(Order(runs), ElementsAre(2, 1));
  EXPECT_EQ(runs[1].state, SweptRun::State::kFailed);
  EXPECT_THAT(runs[1].failure, HasSubstr("no good"));
  Run();
  EXPECT_TRUE(trained_.empty()) << "it would diverge again";
}

TEST_F(Sweeps, TellMistakesBeforeTheyTrain) {
  Vary("schedule.lerning-rate = [1, 2]");
  try {
    Run();
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("learning-rate"));
  }
  Vary("schedule.learning-rate = [1, 2]");
  request_.stop_after = {3, 2};
  EXPECT_THROW(Run(), UsageError);
  EXPECT_TRUE(trained_.empty());
}

}  // namespace
}  // namespace antiphon::pipeline
