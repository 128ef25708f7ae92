// The server's log: a line of JSON for each thing that happened, on standard error or wherever it is told to.
//
//   log.Write("info", "stream-end", {{"stream", 7}, {"seconds", 12.5}});
//   {"time":"2026-11-24T22:00:00.123Z","level":"info","event":"stream-end","stream":7,"seconds":12.5}
//
// What was said stands in it only where the owner asked for it: see with_words. Tokens and addresses' queries never do.
// Threads: safe together; a line is whole. Errors: none; what cannot be written is lost.
#pragma once

#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>

namespace antiphon::serve {

class JsonLog {
 public:
  JsonLog(std::FILE* file, bool with_words) : file_(file), with_words_(with_words) {}
  bool with_words() const { return with_words_; }
  void Write(std::string_view level, std::string_view event, const nlohmann::ordered_json& fields = {});

 private:
  std::FILE* file_;  // null: nothing is written
  bool with_words_;
  std::mutex mutex_;
};

/// "2026-11-24T22:00:00.123Z"
std::string TimeStamp();

}  // namespace antiphon::serve
