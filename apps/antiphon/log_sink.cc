#include "log_sink.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "base/log.h"
#include "report/progress.h"

namespace antiphon::app {
namespace {

// Wipes a progress line before a message, so that neither eats the other.
class TerminalSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::fputs("\r\033[K", stderr);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

}  // namespace

void InstallLogSink(int verbosity) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (::isatty(STDERR_FILENO) != 0) {
    sink = std::make_shared<TerminalSink>();
    sink->set_pattern("%H:%M:%S %v");
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  auto logger = std::make_shared<spdlog::logger>("antiphon", std::move(sink));
  logger->set_level(verbosity < 0 ? spdlog::level::warn : verbosity > 0 ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::debug);
  log::SetLogger(std::move(logger));
  report::ProgressSink::AllowTerminal();
}

}  // namespace antiphon::app
