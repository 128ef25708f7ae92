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
  const int64_t numbers[] = {done_, under_way() ? 1 : 0};
  writer.Add(prefix + ".epochs", std::span<const int64_t>(numbers));
  if (!under_way()) return;
  method_->state()->SaveState(writer, prefix);
  method_->SaveStreams(writer, prefix + ".streams");
}

// Whether the method's state was saved: a single worker has none.
bool WarmStart::LoadEpochs(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<int64_t> numbers = reader.ReadInts(prefix + ".epochs");
  done_ = numbers.at(0);
  return numbers.size() < 2 || numbers[1] != 0;
}

void WarmStart::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const bool saved = LoadEpochs(reader, prefix);
  if (!under_way()) return;
  if (saved) method_->state()->LoadState(reader, prefix);
  method_->LoadStreams(reader, prefix + ".streams");
}

void WarmStart::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  const bool saved = LoadEpochs(ranks[0], prefix);
  if (method_) method_->ForgetStreams();
  if (under_way() && saved) method_->state()->LoadFolded(ranks, prefix);
}

}  // namespace antiphon::parallel
