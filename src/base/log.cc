#include "base/log.h"

#include <spdlog/sinks/null_sink.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace antiphon::log {
namespace {

// A logger that was exchanged stays: another thread may be writing to it.
struct Loggers {
  Loggers() {
    auto none = std::make_shared<spdlog::logger>("antiphon", std::make_shared<spdlog::sinks::null_sink_mt>());
    none->set_level(spdlog::level::off);
    Set(std::move(none));
  }
  void Set(std::shared_ptr<spdlog::logger> logger) {
    const std::lock_guard lock(mutex);
    present.store(logger.get(), std::memory_order_release);
    all.push_back(std::move(logger));
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<spdlog::logger>> all;  // guarded by mutex
  std::atomic<spdlog::logger*> present{nullptr};
};

Loggers& TheLoggers() {
  static Loggers loggers;
  return loggers;
}

}  // namespace

spdlog::logger& Logger() { return *TheLoggers().present.load(std::memory_order_acquire); }

void SetLogger(std::shared_ptr<spdlog::logger> logger) { TheLoggers().Set(std::move(logger)); }

}  // namespace antiphon::log
