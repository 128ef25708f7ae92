#include "parallel/arrival_log.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::parallel {
namespace {

constexpr std::string_view kMark = "arrivals";

std::vector<Arrival> ReadArrivals(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  if (!bytes.starts_with(kMark) || (bytes.size() - kMark.size()) % sizeof(Arrival) != 0) {
    Throw<InputError>("'{}' is no arrival log of this program, or one that was cut short: {} bytes", path.string(),
                      bytes.size());
  }
  std::vector<Arrival> arrivals((bytes.size() - kMark.size()) / sizeof(Arrival));
  if (!arrivals.empty()) std::memcpy(arrivals.data(), bytes.data() + kMark.size(), bytes.size() - kMark.size());
  return arrivals;
}

}  // namespace

ArrivalLog::ArrivalLog(std::filesystem::path write, const std::filesystem::path& replay)
    : path_(std::move(write)), replay_path_(replay), replaying_(!replay.empty()) {
  if (replaying_) replay_ = ReadArrivals(replay_path_);
}

Arrival ArrivalLog::Next() const {
  if (arrivals_.size() >= replay_.size()) {
    Throw<InputError>("the arrival log '{}' ends after {} requests: it was made by another run", replay_path_.string(),
                      replay_.size());
  }
  return replay_[arrivals_.size()];
}

void ArrivalLog::Record(Arrival arrival) {
  if (replaying_ || writing()) arrivals_.push_back(arrival);
}

void ArrivalLog::Write() const {
  if (!writing()) return;
  std::string bytes(kMark);
  bytes.append(reinterpret_cast<const char*>(arrivals_.data()), arrivals_.size() * sizeof(Arrival));
  WriteFileAtomically(path_, bytes);
}

void ArrivalLog::GoOnBehind(int64_t count) {
  if (!replaying_ && !writing()) return;
  arrivals_.clear();
  if (count == 0) return;
  const std::filesystem::path& file = replaying_ ? replay_path_ : path_;
  arrivals_ = replaying_ ? replay_ : ReadArrivals(file);
  if (std::ssize(arrivals_) < count) {
    Throw<InputError>("the arrival log '{}' has {} requests, but this rank had handled {} when the checkpoint was made",
                      file.string(), arrivals_.size(), count);
  }
  arrivals_.resize(static_cast<size_t>(count));
}

}  // namespace antiphon::parallel
