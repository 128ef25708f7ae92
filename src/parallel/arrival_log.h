// The order in which a rank handled requests, to be written down and followed again.
//
// A file holds one number per request, 4 bytes each, that tells in which stream of messages it came. Threads: one
// owner. Errors: InputError for a log that does not fit the run; IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace antiphon::parallel {

class ArrivalLog {
 public:
  /// Empty paths: not written, not followed.
  ArrivalLog(std::filesystem::path write, const std::filesystem::path& replay);

  bool replaying() const { return replaying_; }
  /// Stream of the request to be handled next, when replaying; InputError if the log has ended.
  int Next() const;
  void Record(int stream);
  void Write() const;
  int64_t size() const { return static_cast<int64_t>(streams_.size()); }

 private:
  std::filesystem::path path_;
  std::filesystem::path replay_path_;
  bool replaying_;
  std::vector<int32_t> streams_;
  std::vector<int32_t> replay_;
};

}  // namespace antiphon::parallel
