// antiphon bench streams, stopped while its workers run.
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>

#include "base/cancel.h"
#include "base/error.h"
#include "command.h"

namespace antiphon::app {
namespace {

TEST(BenchStreamsCommand, EndsItsWorkersWhereItIsStopped) {
  Config config;
  config.Set("layers", "'22,8,4'");
  config.Set("precision", "'fp32'");
  config.Set("streams", "2");
  config.Set("seconds", "1000000.0");
  config.Set("threads", "2");
  const std::atomic<bool> stop{true};
  const CancelScope scope(&stop);
  std::ostringstream printed;
  EXPECT_THROW(RunCommand("bench streams", config, printed), Cancelled);
}

}  // namespace
}  // namespace antiphon::app
