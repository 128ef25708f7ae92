#include "antiphon/log.h"

#include <pthread.h>
#include <spdlog/sinks/sink.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"

namespace antiphon {
namespace {

LogLevel LevelOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::warn) return LogLevel::kWarning;
  return level == spdlog::level::info ? LogLevel::kInfo : LogLevel::kDebug;
}

class CallbackSink : public spdlog::sinks::sink {
 public:
  void Set(LogCallback callback) {
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }

  // The lock is held across a fork, so that the child does not inherit it from a thread that it has not. A callback
  // that forks holds it already, and lets it go in both processes. Not a recursive mutex: those know their owner by a
  // number that the child's thread has no more.
  void BeforeFork() {
    if (!in_callback) mutex_.lock();
  }
  void AfterFork() {
    if (!in_callback) mutex_.unlock();
  }

  void log(const spdlog::details::log_msg& message) override {
    const std::lock_guard lock(mutex_);
    if (!callback_) return;
    in_callback = true;
    try {
      callback_(LevelOf(message.level), {message.payload.data(), message.payload.size()});
    } catch (...) {  // spdlog would print it
    }
    in_callback = false;
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  static thread_local bool in_callback;
  std::mutex mutex_;
  LogCallback callback_;  // guarded by mutex_
};

thread_local bool CallbackSink::in_callback = false;

// What a fork locks: the one sink, which lives as long as the process.
CallbackSink* locked_by_fork = nullptr;

std::shared_ptr<CallbackSink> NewSink() {
  auto* const sink = new CallbackSink;
  locked_by_fork = sink;
  const auto unlock = [] { locked_by_fork->AfterFork(); };
  ::pthread_atfork([] { locked_by_fork->BeforeFork(); }, unlock, unlock);
  return {sink, [](CallbackSink*) {}};  // threads may fork and log while static objects end
}

}  // namespace

void SetLogCallback(LogCallback callback, LogLevel least) {
  static const std::shared_ptr<CallbackSink> sink = NewSink();
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
