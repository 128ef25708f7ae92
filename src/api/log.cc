#include "antiphon/log.h"

#include <spdlog/sinks/base_sink.h>

#include <memory>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace antiphon {
namespace {

LogLevel LevelOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::warn) return LogLevel::kWarning;
  return level == spdlog::level::info ? LogLevel::kInfo : LogLevel::kDebug;
}

class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void Set(LogCallback callback) {
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!callback_) return;
    try {
      callback_(LevelOf(message.level), {message.payload.data(), message.payload.size()});
    } catch (...) {  // spdlog would print it
    }
  }
  void flush_() override {}

 private:
  LogCallback callback_;  // guarded by mutex_
};

}  // namespace

void SetLogCallback(LogCallback callback, LogLevel least) {
  static const auto sink = std::make_shared<CallbackSink>();
  static const auto logger = std::make_shared<spdlog::logger>("antiphon", sink);
  const bool silent = !callback;
  sink->Set(std::move(callback));
  logger->set_level(silent                      ? spdlog::level::off
                    : least == LogLevel::kDebug ? spdlog::level::debug
                    : least == LogLevel::kInfo  ? spdlog::level::info
                                                : spdlog::level::warn);
  if (&log::Logger() != logger.get()) log::SetLogger(logger);
}

}  // namespace antiphon
