#include "serve/json_log.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>

#include "base/printed_json.h"

namespace antiphon::serve {

std::string TimeStamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

void JsonLog::Write(std::string_view level, std::string_view event, const nlohmann::ordered_json& fields) {
  if (file_ == nullptr) return;
  nlohmann::ordered_json line = {{"time", TimeStamp()}, {"level", level}, {"event", event}};
  if (fields.is_object()) line.update(fields);
  const std::string text = PrintedJson(line) + "\n";
  const std::lock_guard lock(mutex_);
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

}  // namespace antiphon::serve
