// Log messages of the library. Silent until a program installs a sink (apps do; tests and embedders need not).
//
//   log::Info("epoch {} of {}: loss {:.4f}", epoch, num_epochs, loss);
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <utility>

namespace antiphon::log {

/// The library's logger; null sink until SetLogger. Safe from any thread.
spdlog::logger& Logger();
void SetLogger(std::shared_ptr<spdlog::logger> logger);

template <class... Args>
void Debug(fmt::format_string<Args...> format, Args&&... args) {
  Logger().debug(format, std::forward<Args>(args)...);
}
template <class... Args>
void Info(fmt::format_string<Args...> format, Args&&... args) {
  Logger().info(format, std::forward<Args>(args)...);
}
template <class... Args>
void Warn(fmt::format_string<Args...> format, Args&&... args) {
  Logger().warn(format, std::forward<Args>(args)...);
}

}  // namespace antiphon::log
