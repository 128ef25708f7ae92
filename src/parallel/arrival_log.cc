#include "parallel/arrival_log.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::parallel {

ArrivalLog::ArrivalLog(std::filesystem::path write, const std::filesystem::path& replay)
    : path_(std::move(write)), replay_path_(replay), replaying_(!replay.empty()) {
  if (!replaying_) return;
  const std::string bytes = ReadFile(replay);
  if (bytes.size() % sizeof(int32_t) != 0) {
    Throw<InputError>("'{}' is no arrival log: {} bytes", replay.string(), bytes.size());
  }
  replay_.resize(bytes.size() / sizeof(int32_t));
  if (!replay_.empty()) std::memcpy(replay_.data(), bytes.data(), bytes.size());
}

int ArrivalLog::Next() const {
  if (streams_.size() >= replay_.size()) {
    Throw<InputError>("the arrival log '{}' ends after {} requests: it was made by another run", replay_path_.string(),
                      replay_.size());
  }
  return replay_[streams_.size()];
}

void ArrivalLog::Record(int stream) {
  if (replaying_ || !path_.empty()) streams_.push_back(stream);
}

void ArrivalLog::Write() const {
  if (path_.empty()) return;
  WriteFileAtomically(path_,
                      std::string(reinterpret_cast<const char*>(streams_.data()), streams_.size() * sizeof(int32_t)));
}

}  // namespace antiphon::parallel
