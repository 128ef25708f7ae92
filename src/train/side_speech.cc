#include "train/side_speech.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/feature_kind.h"
#include "data/text_table.h"
#include "train/targets.h"

namespace antiphon::train {
namespace {

// Of `key`, which belongs to one task alone.
void CheckKey(const std::string& task, const std::string& key, const std::string& value, const std::string& owner) {
  if (task == owner && value.empty()) {
    Throw<UsageError>("side.task = '{}' learns from side.{}, which is missing: give it", task, key);
  }
  if (task != owner && !value.empty()) {
    Throw<UsageError>("side.{} belongs to side.task = '{}', and the task is '{}': leave it out", key, owner, task);
  }
}

std::map<std::string, std::string> ReadLabelFile(const std::string& file) {
  std::vector<data::DataProblem> problems;
  std::map<std::string, std::string> label_of;
  for (const data::TextLine& line : data::ReadTextTable(file, problems)) {
    const std::vector<std::string> labels = data::SplitWords(line.rest);
    if (labels.size() != 1) {
      Throw<InputError>("{}:{}: expected 'utterance label', found {} fields", file, line.line, labels.size() + 1);
    }
    label_of[line.key] = labels[0];
  }
  for (const data::DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
  }
  return label_of;
}

}  // namespace

void CheckSideTask(const adapt::SideTaskOptions& options) {
  if (!options.any()) {
    const auto given = DescribeOptions(options), none = DescribeOptions(adapt::SideTaskOptions());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].default_value == none[i].default_value) continue;
      Throw<UsageError>("side.{} = {} does nothing without side.task: name a task, or leave it out", given[i].name,
                        given[i].default_value);
    }
    return;
  }
  CheckKey(options.task, "store", options.store, "domain");
  CheckKey(options.task, "labels", options.labels, "labels");
  if (options.reads_pdf_ids() && options.task != "domain") {
    throw UsageError("side.balance and side.learn are about the other speech of side.task = 'domain'");
  }
}

SideSpeech::SideSpeech(const adapt::SideTaskOptions& options, std::shared_ptr<const data::FrameStore> store,
                       const data::MinibatchOptions& data, const PhoneMap* phones, uint64_t seed,
                       const TimeContext& needed)
    : options_(options),
      seed_(seed),
      context_{data.left_context, data.right_context},
      needed_(needed),
      store_(std::move(store)) {
  targets_.tasks.push_back({options.task, {}});
  CheckSideTask(options);
  if (options.task == "domain") {
    OpenOther(data, seed);
    if (options.reads_pdf_ids()) RequirePdfIds(*other_store_);
    if (options.balance) Balance(*other_store_, phones);
    classes_ = 2;
    return;
  }
  if (options.task == "labels") {
    ReadLabels(options.labels);
    return;
  }
  for (const auto& utterance : store_->utterances()) label_of_utterance_.push_back(utterance.speaker);
  classes_ = static_cast<int>(store_->speakers().size());
  if (classes_ < 2) {
    Throw<InputError>("'{}' has {} speaker(s): there is nothing to tell apart", store_->folder().string(), classes_);
  }
}

void SideSpeech::OpenOther(const data::MinibatchOptions& data, uint64_t seed) {
  data::FrameStoreAccess access;
  access.cache = data.cache;
  other_store_ = std::make_shared<const data::FrameStore>(options_.store, access);
  const data::FrameStore& other = *other_store_;
  if (other.feat_dim() != store_->feat_dim()) {
    Throw<InputError>("the speech in '{}' has {} features per frame, that in '{}' {}: both must be prepared alike",
                      options_.store, other.feat_dim(), store_->folder().string(), store_->feat_dim());
  }
  if (other.fingerprint() == store_->fingerprint()) {
    Throw<UsageError>("side.store '{}' holds the training speech itself: there is nothing to tell apart",
                      options_.store);
  }
  data::RequireKind(other, data::KindOf(*store_), fmt::format("'{}'", store_->folder().string()));
  data::MinibatchOptions plain = data;
  plain.distribution = data::Distribution::kPool;
  plain.carry_state = false;
  if (other.live() == nullptr) plain.augment = {};
  other_ = std::make_unique<const data::MinibatchPool>(other_store_, plain, MixSeed(seed, 1), 1, std::vector<size_t>(),
                                                       data::InputNormalisation(), needed_);
  if (other_->num_frames() < plain.minibatch) {
    Throw<InputError>("'{}' has {} frames, fewer than a minibatch of {}: too little speech", options_.store,
                      other_->num_frames(), plain.minibatch);
  }
}

void SideSpeech::RequirePdfIds(const data::FrameStore& other) const {
  if (other.labelled() && other.num_pdfs() == store_->num_pdfs()) return;
  Throw<InputError>("'{}' has no pdf-ids of the {} senones, which balance and learn need: recognise it", options_.store,
                    store_->num_pdfs());
}

// Where one speech has more silence than the other, that alone tells them apart, and hiding it would take silence for
// speech. Of each phone both keep the smaller of the two shares.
void SideSpeech::Balance(const data::FrameStore& other, const PhoneMap* phones) {
  std::vector<int32_t> phone_of_pdf(static_cast<size_t>(store_->num_pdfs()));
  std::iota(phone_of_pdf.begin(), phone_of_pdf.end(), 0);
  if (phones != nullptr) phone_of_pdf = phones->phone_of_pdf;
  const auto shares = [&](const data::FrameStore& store) {
    std::vector<double> frames(phone_of_pdf.size());
    const std::vector<int64_t> counts = store.CountPdfs();
    for (size_t pdf = 0; pdf < counts.size(); ++pdf) {
      frames[static_cast<size_t>(phone_of_pdf[pdf])] += static_cast<double>(counts[pdf]);
    }
    const double all = std::accumulate(frames.begin(), frames.end(), 0.0);
    for (double& f : frames) f /= all;
    return frames;
  };
  const std::vector<double> own = shares(*store_), others = shares(other);
  for (const int32_t phone : phone_of_pdf) {
    const double a = own[static_cast<size_t>(phone)], b = others[static_cast<size_t>(phone)];
    seen_of_own_.push_back(a > b ? b / a : 1);
    seen_of_other_.push_back(b > a ? a / b : 1);
  }
}

void SideSpeech::ReadLabels(const std::string& file) {
  const std::map<std::string, std::string> label_of = ReadLabelFile(file);
  std::map<std::string, int32_t> classes;
  for (const auto& utterance : store_->utterances()) {
    if (const auto found = label_of.find(utterance.utt_id); found != label_of.end()) classes.emplace(found->second, 0);
  }
  for (auto& [label, index] : classes) index = classes_++;
  const std::string folder = store_->folder().string();
  if (classes_ == 0) Throw<InputError>("'{}' names no utterance of '{}'", file, folder);
  if (classes_ < 2) {
    Throw<InputError>("'{}' has {} label(s) for the utterances of '{}': there is nothing to tell apart", file, classes_,
                      folder);
  }
  for (const auto& utterance : store_->utterances()) {
    const auto found = label_of.find(utterance.utt_id);
    label_of_utterance_.push_back(found == label_of.end() ? nn::SideTargets::kUnknown : classes.at(found->second));
  }
}

std::vector<EvaluationData> SideSpeech::Kinds() const {
  const auto of = [&](const std::shared_ptr<const data::FrameStore>& store) {
    EvaluationData data;
    data.store = store;
    data.context = context_;
    return data;
  };
  if (other_) return {of(store_), of(other_store_)};
  std::vector<EvaluationData> kinds(static_cast<size_t>(classes_), of(store_));
  for (size_t u = 0; u < label_of_utterance_.size(); ++u) {
    const int32_t label = label_of_utterance_[u];
    if (label != nn::SideTargets::kUnknown) kinds[static_cast<size_t>(label)].utterances.push_back(u);
  }
  std::erase_if(kinds, [](const EvaluationData& kind) { return kind.utterances.empty(); });
  return kinds;
}

void SideSpeech::RequireClassesIn(const std::vector<size_t>& training) const {
  if (other_ || training.empty()) return;
  std::set<int32_t> said;
  for (const size_t u : training) {
    if (label_of_utterance_[u] != nn::SideTargets::kUnknown) said.insert(label_of_utterance_[u]);
  }
  if (said.size() >= 2) return;
  Throw<InputError>(
      "of the {} classes of side.task = '{}' {} is in the speech that is left to learn from when the rest is held out: "
      "there is nothing to tell apart. Hold out otherwise (held-out.by = 'utterance')",
      classes_, options_.task, said.size());
}

int64_t SideSpeech::unlabelled() const {
  return std::count(label_of_utterance_.begin(), label_of_utterance_.end(), nn::SideTargets::kUnknown);
}

std::string SideSpeech::Describe() const {
  if (other_) {
    return fmt::format("side task 'domain': as many {} of '{}' in each minibatch",
                       other_->options().chunk_frames > 0 ? "chunks" : "frames", options_.store);
  }
  const int64_t utterances = std::ssize(label_of_utterance_);
  return fmt::format("side task '{}': {} of {} utterances have a label, of {} kinds", options_.task,
                     utterances - unlabelled(), utterances, classes_);
}

nn::LossResult SideSpeech::TakeSeen() {
  seen_ += std::exchange(targets_.tasks[0].seen, {});
  return std::exchange(seen_, {});
}

int32_t SideSpeech::LabelOf(int64_t frame_id) const {
  if (frame_id < 0) return nn::SideTargets::kUnknown;  // padding
  return other_ ? 0 : label_of_utterance_[UtteranceOfFrame(*store_, frame_id)];
}

ConstMatrixView SideSpeech::JoinFeatures(const data::Minibatch& minibatch, int64_t step, nn::ExecContext& context) {
  if (!other_) {
    joined_.TakeAlone(minibatch);
  } else {
    // Of single frames the last minibatch of a pass is short and left out: each class has half of them.
    const bool in_chunks = other_->options().chunk_frames > 0;
    const int64_t whole = in_chunks ? other_->num_minibatches(0) : other_->num_frames() / other_->options().minibatch;
    const int64_t epoch = step / whole;
    other_->Fill(epoch, 0, step % whole % other_->num_minibatches(epoch), buffer_);
    joined_.Join(minibatch, buffer_.minibatch, needed_);
  }
  context.sequences = joined_.sequences();
  return joined_.features();
}

void SideSpeech::Join(const data::Minibatch& minibatch, int64_t step, parallel::StepInput& input) {
  input.features = JoinFeatures(minibatch, step, input.context);
  input.context.side_targets = &targets_;
  std::vector<int32_t>& labels = targets_.tasks[0].labels;
  labels.assign(joined_.outputs(), nn::SideTargets::kUnknown);
  for (size_t n = 0; n < labels.size(); ++n) {
    if (const auto own = joined_.Own(n)) {
      labels[n] = LabelOf(minibatch.frame_ids[*own]);
    } else if (const auto other = joined_.Other(n); other && buffer_.minibatch.frame_ids[*other] >= 0) {
      labels[n] = 1;
    }
  }
  seen_ += std::exchange(targets_.tasks[0].seen, {});
  if (!other_) return;
  JoinPdfIds(minibatch, input);
  if (options_.balance) LeaveOut(step);
  if (joined_.sequences() != nullptr) WeighAlike();
}

void SideSpeech::JoinPdfIds(const data::Minibatch& minibatch, parallel::StepInput& input) {
  pdf_ids_.assign(joined_.outputs(), 0);
  weights_.assign(joined_.outputs(), 0);
  for (size_t n = 0; n < pdf_ids_.size(); ++n) {
    if (const auto own = joined_.Own(n)) {
      pdf_ids_[n] = minibatch.pdf_ids[*own];
      weights_[n] = minibatch.weights[*own];
    } else if (const auto other = joined_.Other(n); other && buffer_.minibatch.frame_ids[*other] >= 0) {
      if (options_.reads_pdf_ids()) pdf_ids_[n] = buffer_.minibatch.pdf_ids[*other];
      weights_[n] = static_cast<float>(options_.learn);
    }
  }
  input.targets.pdf_ids = pdf_ids_;
  input.targets.frame_weights = weights_;
}

// Chunks are of different lengths: each kind of speech gets half of the weight.
void SideSpeech::WeighAlike() {
  const std::vector<int32_t>& labels = targets_.tasks[0].labels;
  std::array<float, 2> frames = {};
  for (const int32_t label : labels) {
    if (label != nn::SideTargets::kUnknown) ++frames[static_cast<size_t>(label)];
  }
  std::vector<float>& weights = targets_.tasks[0].weights;
  weights.assign(labels.size(), 0);
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] == nn::SideTargets::kUnknown) continue;
    weights[n] = (frames[0] + frames[1]) / (2 * frames[static_cast<size_t>(labels[n])]);
  }
}

void SideSpeech::LeaveOut(int64_t step) {
  Rng rng(seed_, static_cast<uint64_t>(step));
  for (size_t n = 0; n < pdf_ids_.size(); ++n) {
    const std::vector<double>& seen = joined_.Own(n) ? seen_of_own_ : seen_of_other_;
    if (rng.Uniform() >= seen[static_cast<size_t>(pdf_ids_[n])]) {
      targets_.tasks[0].labels[n] = nn::SideTargets::kUnknown;
    }
  }
}

}  // namespace antiphon::train
