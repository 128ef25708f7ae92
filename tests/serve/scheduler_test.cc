#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "serve/clock.h"
#include "serve/metrics.h"
#include "without_threads.h"

namespace antiphon::serve {
namespace {

struct Call : Task {
  explicit Call(std::function<void()> its_work) : work(std::move(its_work)) {}
  void Step() override { work(); }
  std::function<void()> work;
};

TEST(Scheduler, RunsWhatIsDueFirst) {
  Scheduler scheduler(1);
  std::promise<void> begun, go_on, done;
  scheduler.Submit(std::make_shared<Call>([&] {
                     begun.set_value();
                     go_on.get_future().wait();
                   }),
                   0);
  begun.get_future().wait();
  std::vector<int> order;
  const double now_s = NowSeconds();
  for (const int due : {3, 1, 2}) {
    scheduler.Submit(std::make_shared<Call>([&order, due] { order.push_back(due); }), now_s + due);
  }
  scheduler.Submit(std::make_shared<Call>([&] { done.set_value(); }), now_s + 4);
  EXPECT_EQ(scheduler.num_waiting(), 4);
  EXPECT_EQ(scheduler.delay_s(), 0.0) << "nothing is due yet";
  scheduler.Submit(std::make_shared<Call>([] {}), now_s - 5);
  EXPECT_GE(scheduler.delay_s(), 5.0);
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Scheduler, DropsWhatWaitsWhenItStops) {
  Scheduler scheduler(1);
  std::promise<void> begun, go_on;
  scheduler.Submit(std::make_shared<Call>([&] {
                     begun.set_value();
                     go_on.get_future().wait();
                   }),
                   0);
  begun.get_future().wait();
  bool ran = false;
  const auto waits = std::make_shared<Call>([&] { ran = true; });
  scheduler.Submit(waits, 0);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  std::thread stops([&] { scheduler.Stop(); });
  while (scheduler.num_waiting() > 0) std::this_thread::yield();  // the only thread does not take it
  go_on.set_value();
  stops.join();
  EXPECT_FALSE(ran);
  scheduler.Submit(waits, 0);
  EXPECT_EQ(scheduler.num_waiting(), 0);
  scheduler.Stop();
  EXPECT_FALSE(ran);
}

TEST(Scheduler, IsAnErrorWithoutAnyThread) {
  const antiphon::testing::WithoutThreads without;
  try {
    Scheduler scheduler(2);
    FAIL() << "speech would wait for ever";
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("ulimit -u"), std::string::npos) << e.what();
  }
}

TEST(Metrics, AreTextOfPrometheus) {
  Metrics metrics;
  metrics.Add("antiphon_errors_total", R"(kind="usage")");
  metrics.Add("antiphon_errors_total", R"(kind="usage")", 2);
  metrics.Observe("antiphon_reply_seconds", 0.03);
  metrics.Observe("antiphon_reply_seconds", 100);
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("# TYPE antiphon_errors_total counter\nantiphon_errors_total{kind=\"usage\"} 3\n"),
            std::string::npos);
  EXPECT_NE(text.find("antiphon_reply_seconds_bucket{le=\"0.025\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("antiphon_reply_seconds_bucket{le=\"0.05\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("antiphon_reply_seconds_bucket{le=\"+Inf\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("antiphon_reply_seconds_count 2\n"), std::string::npos);
  EXPECT_THROW(metrics.Add("antiphon_nothing"), InternalError);
}

}  // namespace
}  // namespace antiphon::serve
