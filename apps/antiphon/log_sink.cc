#include "log_sink.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "report/progress.h"

namespace antiphon::app {
namespace {

constexpr char kPlainPattern[] = "%Y-%m-%d %H:%M:%S.%e %l %v";

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
    sink->set_pattern(kPlainPattern);
  }
  const auto level = verbosity < 0 ? spdlog::level::warn : verbosity > 0 ? spdlog::level::debug : spdlog::level::info;
  auto logger = std::make_shared<spdlog::logger>("antiphon", std::move(sink));
  logger->set_level(level);
  logger->sinks().front()->set_level(level);
  logger->flush_on(spdlog::level::debug);
  log::SetLogger(std::move(logger));
  report::ProgressSink::AllowTerminal();
}

void ShowWarningsOf(int process) {
  spdlog::logger& logger = log::Logger();
  spdlog::sinks::sink& shown = *logger.sinks().front();
  shown.set_level(std::max(shown.level(), spdlog::level::warn));
  shown.set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e %l [process {}] %v", process));
  if (logger.sinks().size() == 1) logger.set_level(shown.level());
}

void AlsoLogTo(const std::filesystem::path& file) {
  spdlog::logger& logger = log::Logger();
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern(kPlainPattern);
    sink->set_level(spdlog::level::info);
    logger.set_level(std::min(logger.level(), spdlog::level::info));
    logger.sinks().push_back(std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    log::Warn("the log is not kept in '{}': {}", file.string(), e.what());
  }
}

}  // namespace antiphon::app
