#include "base/log.h"

#include <spdlog/sinks/null_sink.h>

namespace antiphon::log {
namespace {

std::shared_ptr<spdlog::logger>& Slot() {
  static std::shared_ptr<spdlog::logger> logger =
      std::make_shared<spdlog::logger>("antiphon", std::make_shared<spdlog::sinks::null_sink_mt>());
  return logger;
}

}  // namespace

spdlog::logger& Logger() { return *Slot(); }

void SetLogger(std::shared_ptr<spdlog::logger> logger) { Slot() = std::move(logger); }

}  // namespace antiphon::log
