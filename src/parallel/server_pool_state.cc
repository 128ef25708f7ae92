// The part of ServerPool that saves its state, and follows the log of an earlier run.
#include "base/error.h"
#include "base/log.h"
#include "parallel/server_pool.h"

namespace antiphon::parallel {

bool ServerPool::IsNext(const Letter& letter) {
  Arrival next = log_.Next();
  for (; next.kind == static_cast<int32_t>(Kind::kStop); next = log_.Next()) {
    log_.Record(next);
    ledger_.Stop();
  }
  const bool reports = next.kind == static_cast<int32_t>(Kind::kApplied);
  if (next.source != letter.source || reports != letter.reports()) return false;
  if (next == letter.arrival()) return true;
  Throw<InputError>(
      "the arrival log '{}' has a request of kind {} of rank {} in place {}, where this run has one of kind {}: it was "
      "made by another run, or with another checkpoint.steps",
      log_.replay_path().string(), next.kind, next.source, log_.size(), letter.arrival().kind);
}

void ServerPool::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  if (coordinator()) ledger_.SaveState(writer, prefix);
  shard_.SaveState(writer, prefix);
  const int64_t arrivals = log_.size();
  writer.Add(prefix + ".arrivals", std::span<const int64_t>(&arrivals, 1));
}

void ServerPool::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  if (coordinator()) ledger_.LoadState(reader, prefix);
  shard_.LoadState(reader, prefix);
  // After falling back within a run, what has arrived meanwhile did arrive.
  if (log_.size() == 0) log_.GoOnBehind(reader.ReadInts(prefix + ".arrivals").at(0));
}

void ServerPool::LoadLedger(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  if (coordinator()) ledger_.LoadFolded(ranks, prefix);
  if (log_.replaying()) {
    Throw<InputError>("the arrival log '{}' is to be followed, but it was made by another number of workers than {}",
                      log_.replay_path().string(), comm_.world_size());
  }
  if (!log_.writing()) return;
  if (comm_.rank() == 0) {
    log::Warn("the arrival logs end here, as another number of workers goes on: a replay ends here too");
  }
  log_.StopWriting();
}

}  // namespace antiphon::parallel
