// How well a network tells the senones of data that it does not learn from: loss, frame accuracy, confusion of phones.
//
// Units: loss in nats per frame; accuracy as the share of frames whose largest output (before priors) is the aligned
// pdf-id, phone accuracy likewise for the pdf-ids' phones. Frames weigh as in the store. Threads: one caller; the
// arithmetic in its compute threads. Deterministic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "data/minibatch_pool.h"
#include "hmm/hmm_model.h"
#include "math/gemm.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "report/confusion.h"
#include "train/targets.h"

namespace antiphon::train {

class SequenceTask;

/// Frames of a store to evaluate on.
struct EvaluationData {
  std::shared_ptr<const data::FrameStore> store;
  std::vector<size_t> utterances;  // empty: all
  data::Context context;
  Heads heads;
  int minibatch = 1024;                                    // frames at a time
  std::shared_ptr<const SequenceTask> sequence = nullptr;  // null: by frames
  // What the network needs: whole utterances, in chunks whose states are carried on, with the frames around.
  bool in_sequence = false;
  TimeContext needed = {};
  void SuitTo(const nn::Network& network) {
    in_sequence = network.needs_sequences();
    needed = network.time_context();
  }
};

/// Base phone of each pdf-id: pdf-ids shared by several phones go to the one with most transition states.
struct PhoneMap {
  std::vector<std::string> names;
  std::vector<int32_t> phone_of_pdf;  // index into names
  explicit PhoneMap(const hmm::HmmModel& hmm);
  PhoneMap() = default;
};

struct EvaluationRequest {
  const PhoneMap* phones = nullptr;  // for the confusion
  bool mean_posterior = false;
  Precision precision = Precision::kFp32;
};

struct EvaluationResult {
  nn::LossResult loss;
  report::Confusion confusion;         // empty without phones
  std::vector<double> mean_posterior;  // empty unless asked for
};

/// The data's minibatches in the order of the store.
std::shared_ptr<const data::MinibatchPool> FramesInOrder(const EvaluationData& data, int prefetch = 4);

EvaluationResult Evaluate(const nn::Network& network, EvaluationData data, nn::Workspace& workspace,
                          const EvaluationRequest& request = {});

/// The same by a forward pass of one's own, which gives logits [N, out_dim] or, on ranks that do not have them, an
/// empty view, with which nothing is counted.
using ForwardPass = std::function<MatrixView(const nn::ExecContext&, ConstMatrixView x, nn::Workspace&)>;
EvaluationResult Evaluate(const ForwardPass& forward, int out_dim, const EvaluationData& data, nn::Workspace& workspace,
                          const EvaluationRequest& request);

/// Utterances of `store` for training and for evaluation: whole speakers are held out; if there is only one speaker,
/// whole utterances.
struct DataSplit {
  std::vector<size_t> train;
  std::vector<size_t> held_out;
  bool by_speaker = true;
};
DataSplit SplitHeldOut(const data::FrameStore& store, double fraction, uint64_t seed, bool by_speaker = true);
/// As a training run with this seed does it.
DataSplit SplitForRun(const data::FrameStore& store, const HeldOutOptions& options, uint64_t run_seed);
/// What is held out, for the model's description "held_out": "by = utterance, fraction = 0.03, seed = 1".
std::string HeldOutText(const HeldOutOptions& options, uint64_t run_seed);
/// Description of a model under which HeldOutText stands of the training on the store of this fingerprint: of each
/// training that held a part of its store out.
std::string HeldOutKey(uint64_t store_fingerprint);
/// Whether a person chose in the table train.held-out of `config` what is held out.
bool SaysWhatIsHeldOut(const Config& config);
struct HeldOutRun {
  HeldOutOptions options;
  uint64_t seed = 0;
};
/// The text of HeldOutText read; nullopt if it is none.
std::optional<HeldOutRun> ParseHeldOutText(const std::string& text);
/// What a model's training held out, by its descriptions; nullopt if they do not say. `key`: HeldOutKey for a store
/// that it was not first trained on.
std::optional<HeldOutRun> FindHeldOut(const std::map<std::string, std::string>& descriptions,
                                      const std::string& key = "held_out");

/// A random part of `utterances` (all of the store if empty) with about `most_frames` frames; all if they are fewer.
std::vector<size_t> LimitFrames(const data::FrameStore& store, std::vector<size_t> utterances, int64_t most_frames,
                                uint64_t seed);

}  // namespace antiphon::train
