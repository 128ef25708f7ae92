// The order in which a rank handled requests, to be written down and followed again.
//
// A file begins with the eight letters "arrivals" and holds eight bytes per request: who made it, and of what kind it
// was, 4 bytes each. It is that of a whole run, however often it was broken off: whoever goes on keeps what was logged
// up to his checkpoint. Threads: one owner. Errors: InputError for a log that does not fit the run; IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace antiphon::parallel {

struct Arrival {
  int32_t source = 0;  // rank
  int32_t kind = 0;    // as the owner of the log numbers them

  bool operator==(const Arrival&) const = default;
};

class ArrivalLog {
 public:
  /// Empty paths: not written, not followed.
  ArrivalLog(std::filesystem::path write, const std::filesystem::path& replay);

  bool replaying() const { return replaying_; }
  bool writing() const { return !path_.empty(); }
  const std::filesystem::path& replay_path() const { return replay_path_; }
  /// What is to be handled next, when replaying; InputError if the log has ended.
  Arrival Next() const;
  void Record(Arrival arrival);
  void Write() const;
  /// From here on nothing is written any more; the file stays as it is.
  void StopWriting() { path_.clear(); }
  /// Of the run, as far as it has come.
  int64_t size() const { return static_cast<int64_t>(arrivals_.size()); }
  /// Goes on where the run had handled `count` requests: with what its file, or the log to follow, has of them.
  /// InputError if that is less.
  void GoOnBehind(int64_t count);

 private:
  std::filesystem::path path_;
  std::filesystem::path replay_path_;
  bool replaying_;
  std::vector<Arrival> arrivals_;
  std::vector<Arrival> replay_;
};

}  // namespace antiphon::parallel
