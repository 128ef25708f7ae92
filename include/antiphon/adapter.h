// Makes a model good on other speech without forgetting what it knew: what `antiphon adapt --store` does, by the same
// code.
//
//   antiphon::AdapterSettings settings;
//   settings.model = "exp/net/model.safetensors", settings.frame_store = "exp/mine/store";
//   settings.old_store = "exp/store", settings.out = "exp/mine/net";
//   const antiphon::AdaptationOutcome outcome = antiphon::Adapter(settings).Run();
//   if (outcome.accepted) Use(outcome.model_file);
//
// Units: losses in nats per frame, accuracies as shares of frames, 0 … 1.
// Ownership: values; copies are apart, and moving one copies it.
// Threads: a call uses AdapterSettings::threads of its own; one Run at a time per object and per folder (out), which is
// locked against other processes too.
// Errors: antiphon::Error (antiphon/error.h): kUsage for settings that cannot be, kInput for a model or a store that is
// damaged or does not fit, kIo, kDivergence, kCancelled.
#pragma once

#include <cstdint>
#include <string>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct AdapterSettings {
  std::string model = {};
  std::string method = "kld";       // `antiphon adapt --method list`
  std::string out = {};             // folder: model.safetensors, adapted.safetensors, adaptation.json, report.html
  std::string frame_store = {};     // the aligned speech to adapt to
  std::string held_out_store = {};  // of that speech, to measure on; "": a part of frame_store
  std::string old_store = {};       // that the model was trained on, to see what it forgets; "": not measured
  std::string hmm = {};             // model whose states frame_store's pdf-ids are; "": the model's own
  std::string config = {};          // TOML: min-gain, max-forgetting, train …, the method's own table and `optimizer`
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
  CancelToken cancel = {};
};

struct AdaptationMeasures {
  double loss = 0.0;
  double accuracy = 0.0;
  double frames = 0.0;  // measured on; 0: there was nothing to measure
};

struct AdaptationOutcome {
  bool accepted = false;  // else model_file is the model as it was
  std::string verdict;    // a sentence for the person
  std::string model_file;
  std::string profile_file;  // of methods for one speaker; usually ""
  AdaptationMeasures new_before, new_after;
  AdaptationMeasures old_before, old_after;
};

class ANTIPHON_API Adapter {
 public:
  /// Refuses a method and options that there are not, and a model file that is not whole; Run refuses the rest.
  explicit Adapter(AdapterSettings settings);
  Adapter(const Adapter&) = default;
  Adapter& operator=(const Adapter&) = default;
  ~Adapter() = default;

  /// All of it, from reading to the report.
  AdaptationOutcome Run();

 private:
  AdapterSettings settings_;
};

}  // namespace antiphon
