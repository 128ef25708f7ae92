#include "train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/feature_extraction.h"
#include "data/partition.h"
#include "kernels/softmax.h"
#include "train/random_streams.h"
#include "train/sequence_task.h"

namespace antiphon::train {
namespace {

constexpr int kChunkOutputs = 32;

// What stands in padding is nobody's score.
void CountConfusion(ConstMatrixView logits, const nn::LossTargets& targets, const PhoneMap& phones,
                    report::Confusion& confusion) {
  const std::span<const int32_t> pdf_ids = targets.pdf_ids;
  for (int64_t n = 0; n < logits.rows(); ++n) {
    if (targets.frame_weights[static_cast<size_t>(n / targets.heads)] == 0) continue;
    const auto row = logits.Row(n);
    const auto best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    const auto said = static_cast<size_t>(phones.phone_of_pdf[static_cast<size_t>(pdf_ids[static_cast<size_t>(n)])]);
    confusion.counts[said][static_cast<size_t>(phones.phone_of_pdf[best])] += 1;
  }
}

std::vector<size_t> AllUtterances(const data::FrameStore& store) {
  std::vector<size_t> all(store.utterances().size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

}  // namespace

std::shared_ptr<const data::MinibatchPool> FramesInOrder(const EvaluationData& data, int prefetch) {
  data::MinibatchOptions options;
  options.minibatch = data.minibatch;
  options.chunk_frames = data.in_sequence ? kChunkOutputs * data.needed.stride : 0;
  options.left_context = data.context.left;
  options.right_context = data.context.right;
  options.shuffle = false;
  options.prefetch = prefetch;
  options.carry_state = data.in_sequence && !data.sequence;
  if (data.sequence) options = data.sequence->Pieces(*data.store, options);
  return std::make_shared<const data::MinibatchPool>(data.store, options, 0, 1, data.utterances,
                                                     data::InputNormalisation{}, data.needed);
}

PhoneMap::PhoneMap(const hmm::HmmModel& hmm) : phone_of_pdf(static_cast<size_t>(hmm.num_pdfs()), 0) {
  std::vector<int32_t> group_of_phone(static_cast<size_t>(hmm.phones().num_phones()) + 1, 0);
  for (const auto& group : hmm.phones().BaseGroups()) {
    for (const int32_t phone : group) group_of_phone[static_cast<size_t>(phone)] = static_cast<int32_t>(names.size());
    names.push_back(hmm.phones().BaseName(group.front()));
  }
  std::vector<std::map<int32_t, int>> votes(phone_of_pdf.size());
  const hmm::TransitionModel& transitions = hmm.transitions();
  for (int32_t id = 1; id <= transitions.num_transition_ids(); ++id) {
    ++votes[static_cast<size_t>(transitions.Pdf(id))][group_of_phone[static_cast<size_t>(transitions.Phone(id))]];
  }
  for (size_t pdf = 0; pdf < votes.size(); ++pdf) {
    int most = 0;
    for (const auto& [phone, count] : votes[pdf]) {
      if (count > most) phone_of_pdf[pdf] = phone;
      most = std::max(most, count);
    }
  }
}

EvaluationResult Evaluate(const nn::Network& network, EvaluationData data, nn::Workspace& workspace,
                          const EvaluationRequest& request) {
  const auto forward = [&](const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) {
    return network.Forward(context, x, ws);
  };
  data.SuitTo(network);
  return Evaluate(forward, network.out_dim(), data, workspace, request);
}

EvaluationResult Evaluate(const ForwardPass& forward, int out_dim, const EvaluationData& data, nn::Workspace& workspace,
                          const EvaluationRequest& request) {
  nn::ExecContext context;
  context.precision = request.precision;
  EvaluationResult result;
  if (request.phones != nullptr) {
    const size_t n = request.phones->names.size();
    result.confusion = {request.phones->names, std::vector(n, std::vector<double>(n, 0.0))};
  }
  if (request.mean_posterior) result.mean_posterior.assign(static_cast<size_t>(out_dim / data.heads.count), 0.0);
  data::MinibatchStream stream(FramesInOrder(data), 0, 0);
  TargetMaker maker(data.store, data.heads);
  if (data.sequence) maker.LearnBy(data.sequence->MakeLoss(data.store));
  while (data::Minibatch* minibatch = stream.Next()) {
    if (minibatch->pdf_ids.empty()) continue;
    context.sequences = minibatch->sequences;
    const MatrixView output = forward(context, minibatch->features, workspace);
    if (output.data() == nullptr) continue;
    const nn::LossTargets targets = maker.Make(*minibatch);
    result.loss += nn::SoftmaxCrossEntropy(output, targets, {});
    const MatrixView logits(output.data(), output.rows() * targets.heads, output.cols() / targets.heads);
    if (request.phones != nullptr) CountConfusion(logits, targets, *request.phones, result.confusion);
    if (!request.mean_posterior) continue;
    Softmax(false, logits, logits);
    for (int64_t n = 0; n < logits.rows(); ++n) {
      if (minibatch->frame_ids[static_cast<size_t>(n / targets.heads)] < 0) continue;
      for (size_t k = 0; k < result.mean_posterior.size(); ++k) {
        result.mean_posterior[k] += logits(n, static_cast<int64_t>(k));
      }
    }
  }
  const double frames = std::accumulate(result.mean_posterior.begin(), result.mean_posterior.end(), 0.0);
  for (double& p : result.mean_posterior) p /= std::max(frames, 1e-300);
  return result;
}

DataSplit SplitHeldOut(const data::FrameStore& store, double fraction, uint64_t seed, bool by_speaker) {
  DataSplit split;
  std::set<std::string_view> speakers;
  for (const std::string& speaker : store.speakers()) speakers.insert(data::OriginalName(speaker));
  split.by_speaker = by_speaker && speakers.size() > 1;
  std::vector<data::PartitionItem> items;
  for (const auto& utterance : store.utterances()) {
    const std::string& speaker = store.speakers()[static_cast<size_t>(utterance.speaker)];
    // Copies at other speeds go where their originals go.
    const std::string_view stratum = data::OriginalName(split.by_speaker ? speaker : utterance.utt_id);
    items.push_back({utterance.utt_id, utterance.num_frames, std::string(stratum)});
  }
  if (items.size() < 2) {
    Throw<InputError>("the store '{}' has {} utterance(s): training needs some to hold out as well",
                      store.folder().string(), items.size());
  }
  const std::vector<bool> held_out = data::HoldOutStrata(items, fraction, seed);
  for (size_t i = 0; i < items.size(); ++i) (held_out[i] ? split.held_out : split.train).push_back(i);
  return split;
}

DataSplit SplitForRun(const data::FrameStore& store, const HeldOutOptions& options, uint64_t run_seed) {
  return SplitHeldOut(store, options.fraction, SeedOf(run_seed, RandomStream::kHeldOut),
                      options.by == HeldOutUnit::kSpeaker);
}

std::string HeldOutText(const HeldOutOptions& options, uint64_t run_seed) {
  return fmt::format("by = {}, fraction = {}, seed = {}", NameOf(options.by, kHeldOutUnits), options.fraction,
                     run_seed);
}

std::string HeldOutKey(uint64_t store_fingerprint) { return fmt::format("held_out_of.{:016x}", store_fingerprint); }

bool SaysWhatIsHeldOut(const Config& config) {
  return config.Has("train.held-out.by") || config.Has("train.held-out.fraction");
}

std::optional<HeldOutRun> ParseHeldOutText(const std::string& text) {
  static const std::regex form(R"(by = (speaker|utterance), fraction = ([0-9.e-]{1,24}), seed = ([0-9]{1,19}))");
  std::smatch found;
  if (!std::regex_match(text, found, form)) return std::nullopt;
  HeldOutRun run;
  run.options.by = ParseEnum(found[1].str(), kHeldOutUnits);
  run.options.fraction = std::strtod(found[2].str().c_str(), nullptr);
  run.seed = std::strtoull(found[3].str().c_str(), nullptr, 10);
  // What would not be written so again is no run's own text.
  const bool whole = HeldOutText(run.options, run.seed) == text;
  return whole && run.options.fraction > 0 && run.options.fraction <= 0.5 ? std::optional(run) : std::nullopt;
}

std::optional<HeldOutRun> FindHeldOut(const std::map<std::string, std::string>& descriptions, const std::string& key) {
  const auto said = descriptions.find(key);
  return said != descriptions.end() ? ParseHeldOutText(said->second) : std::nullopt;
}

std::vector<size_t> LimitFrames(const data::FrameStore& store, std::vector<size_t> utterances, int64_t most_frames,
                                uint64_t seed) {
  if (utterances.empty()) utterances = AllUtterances(store);
  if (store.CountFrames(utterances) <= most_frames) return utterances;
  Rng(seed, 0x1e1d).Shuffle(std::span(utterances));
  int64_t frames = 0;
  size_t count = 0;
  while (frames < most_frames) frames += store.utterances()[utterances[count++]].num_frames;
  utterances.resize(count);
  std::sort(utterances.begin(), utterances.end());
  return utterances;
}

}  // namespace antiphon::train
