// Makes a trained model ready to become good on other speech: one file per method in adapt/methods, which registers
// itself.
//
//   const auto method = MethodRegistry::Get().Create("kld", Config::Parse("rho = [0.25, 0.5]", "kld"));
//   const Preparation preparation = method->Prepare(model, {.num_pdfs = store.num_pdfs()});
//   …                          // train/adaptation.h trains as the preparation says, on the speech that it says
//   Restore(model, original);  // adapt/restore.h: everything may learn again
//
// Before training a prepared model gives the same outputs as it was (but for a new output layer). A method file ends
// with
//   REGISTER_COMPONENT(MethodRegistry, "foo",
//                      [](const Config& c) { return std::make_unique<Foo>(ReadOptions<…>(c)); });
//
// Threads: one at a time per model. Determinism: same model, speech, options and seed, same bits. Errors: UsageError
// for impossible options and for speech that the method cannot do without; InputError if the model cannot be treated
// so. A model is unchanged if Prepare throws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapt/side_task.h"
#include "base/config.h"
#include "base/registry.h"
#include "math/matrix.h"
#include "nn/model.h"

namespace antiphon::adapt {

/// Valid until the next call.
struct AlignedUtterance {
  ConstMatrixView features;  // [N, feature_dim], as the network's window takes them
  std::span<const int32_t> pdf_ids;
};

class AlignedSpeech {
 public:
  virtual ~AlignedSpeech() = default;
  virtual void Rewind() = 0;
  /// Nullopt at the end.
  virtual std::optional<AlignedUtterance> Next() = 0;
};

struct MethodInput {
  int num_pdfs = 0;      // of the new speech's alignment; 0: the model's
  std::string hmm_json;  // whose they are; empty: the model's
  AlignedSpeech* new_speech = nullptr;
  AlignedSpeech* old_speech = nullptr;  // that the model was trained on; null: there is none
  uint64_t seed = 1;
};

/// What was done to a layer, for the person.
struct Change {
  std::string layer;
  std::string what;
};

/// How much old speech, in the training on new speech.
struct Mixing {
  double tail = 1.0;  // share of the training run, at its end, into which the new speech is put; 1: all of it
  int repeat = 1;     // how often each new utterance stands in the run
};

enum class Speech {
  kNew,                  // train on the new speech
  kMixed,                // on old speech with the new mixed in
  kOldAndNewUnlabelled,  // on old speech; what is read of the new one's pdf-ids says the side task
};

/// How to train the prepared model.
struct Preparation {
  std::vector<Change> changes;
  /// False: Prepare did it all.
  bool trains = true;
  /// ρ: share of the unadapted model's posteriors in the targets. Of several, held-out speech chooses.
  std::vector<double> original_shares = {0.0};
  Speech speech = Speech::kNew;
  Mixing mixing;
  SideTaskOptions side_task;
};

class Method {
 public:
  virtual ~Method() = default;
  virtual Preparation Prepare(nn::Model& model, const MethodInput& input) const = 0;
  /// What the method adds belongs to one speaker and fits a profile (nn/speaker_profile.h).
  virtual bool makes_profile() const { return false; }
  /// False: the method does not look at what was said.
  virtual bool needs_words() const { return true; }
  /// Whether Prepare reads old speech (RequireOldSpeech), so that a caller can ask for it before it makes the new.
  virtual bool needs_old_speech() const { return false; }
};

using MethodRegistry = Registry<Method, const Config&>;

/// The speech, or a UsageError that says who needs it.
AlignedSpeech& RequireNewSpeech(const MethodInput& input, std::string_view method);
AlignedSpeech& RequireOldSpeech(const MethodInput& input, std::string_view method);
/// The latter, where no speech has been opened yet.
[[noreturn]] void RefuseMissingOldSpeech(std::string_view method);

/// Whether pdf-ids of this number and this HMM (nn::Model::hmm_json; empty: not known) are others than the model's.
bool HasOtherSenones(const nn::Model& model, int num_pdfs, std::string_view hmm_json);

/// Throws UsageError if the pdf-ids of the new speech are not the model's.
void RequireSameSenones(const nn::Model& model, const MethodInput& input, std::string_view method);

}  // namespace antiphon::adapt
