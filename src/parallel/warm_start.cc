#include "parallel/warm_start.h"

namespace antiphon::parallel {

WarmStart::WarmStart(int epochs, const Replica& replica) : epochs_(epochs) {
  if (epochs == 0 || replica.comm->world_size() == 1) return;
  method_ = MakeStrategy(Config::Parse("method = \"ssgd\"\n", "warm start"), replica);
}

void WarmStart::Start() {
  if (method_) method_->Start();
}

void WarmStart::AfterEpoch() {
  if (under_way()) method_->AfterEpoch();
  ++done_;
}

void WarmStart::Finish() {
  if (under_way()) method_->Finish();
}

void WarmStart::ResetState() {
  if (method_) method_->ResetState();
}

void WarmStart::AfterLoss() const {
  if (under_way()) throw comm::PeerLost("a worker was lost in the synchronous epochs");
}

void WarmStart::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + ".epochs", std::span<const int64_t>(&done_, 1));
  if (under_way()) method_->state()->SaveState(writer, prefix);
}

void WarmStart::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  done_ = reader.ReadInts(prefix + ".epochs").at(0);
  if (under_way()) method_->state()->LoadState(reader, prefix);
}

void WarmStart::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  done_ = ranks[0].ReadInts(prefix + ".epochs").at(0);
  if (under_way()) method_->state()->LoadFolded(ranks, prefix);
}

}  // namespace antiphon::parallel
