// The first epochs of a method that begins badly, trained by synchronous SGD instead.
//
// Gradients are large at first: what workers find on models that differ does not fit together, and block momentum
// carries it on. The method hands on Step, AfterEpoch and its state while under_way(), and begins with the model that
// is there then. Recurrent states of meanwhile are carried, saved and loaded here, not by the method. A single worker
// needs none. Threads: one per rank. Errors: those of method "ssgd".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "parallel/strategy.h"

namespace antiphon::parallel {

class WarmStart {
 public:
  WarmStart(int epochs, const Replica& replica);

  bool under_way() const { return method_ && done_ < epochs_; }
  void Start();
  StepOutput Step(const StepInput& input) { return method_->Step(input); }
  /// To be called at the end of every epoch.
  void AfterEpoch();
  void Finish();
  void ResetState();
  /// Nobody may be lost meanwhile: PeerLost on all ranks.
  void AfterLoss() const;
  size_t copy_bytes() const { return method_ ? method_->copy_bytes() : 0; }

  CommonState common_state() const { return method_->state()->common_state(); }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix);

 private:
  bool LoadEpochs(const SafetensorsReader& reader, const std::string& prefix);

  int64_t epochs_;
  int64_t done_ = 0;
  std::unique_ptr<Strategy> method_;
};

}  // namespace antiphon::parallel
