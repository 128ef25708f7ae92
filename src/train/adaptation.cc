#include "train/adaptation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "adapt/restore.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "comm/thread_world.h"
#include "data/feature_kind.h"
#include "hmm/gmm_fmllr.h"
#include "nn/speaker_profile.h"
#include "train/adaptation_data.h"
#include "train/adaptation_page.h"
#include "train/random_streams.h"
#include "train/sequence_task.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

// What the model as it was says of the new speech, for networks that cannot have it look on.
fs::path OldPosteriors(const fs::path& folder) { return fs::path(folder) += "-targets.bin"; }

bool IsSpeech(const hmm::HmmModel& hmm, std::span<const int64_t> pdf_frames) {
  const std::vector<bool> spoken = hmm::SpokenPdfs(hmm);
  for (size_t pdf = 0; pdf < std::min(spoken.size(), pdf_frames.size()); ++pdf) {
    if (spoken[pdf] && pdf_frames[pdf] > 0) return true;
  }
  return false;
}

// What the model's own training held out of the old speech.
HeldOutRun HeldOutOf(const nn::Model& model, uint64_t seed) {
  if (const auto said = FindHeldOut(model.descriptions)) return *said;
  HeldOutRun run;
  run.options.by = HeldOutUnit::kUtterance;
  run.seed = seed;
  log::Warn(
      "the model does not say what its training held out: old speech is measured on {:g} % of the utterances, of which "
      "it may have learnt most",
      100 * run.options.fraction);
  return run;
}

}  // namespace

struct AdaptationRun::Candidate {
  nn::Model model;
  AdaptationTrial trial;
  std::vector<std::pair<double, double>> schedule = {};
};

TrainOptions AdaptationOptions::AdaptationDefaults() {
  TrainOptions options;
  options.data.minibatch = 128;
  options.schedule.type = optim::ScheduleType::kExponential;
  options.schedule.epochs = 5;
  options.schedule.learning_rate = 0.03;
  options.schedule.final_learning_rate = 0.003;
  options.held_out.by = HeldOutUnit::kUtterance;
  options.held_out.fraction = 0.2;
  options.dropout_schedule = "0";
  return options;
}

AdaptationRun::AdaptationRun(AdaptationOptions options, std::shared_ptr<const nn::Model> model, AdaptationSpeech speech,
                             uint64_t seed)
    : options_(std::move(options)), model_(std::move(model)), speech_(std::move(speech)), seed_(seed) {
  if (!speech_.new_store) throw UsageError("there is no speech to adapt to");
  CheckSpeech();
  TakeHeldOut();
  const data::Context context{model_->left_context, model_->right_context};
  const Heads heads{model_->frames_per_forward, model_->first_frame_offset};
  if (speech_.held_out_store) {
    new_held_out_ = {speech_.held_out_store, {}, context, heads};
  } else {
    DataSplit split = SplitForRun(*speech_.new_store, options_.train.held_out, held_out_seed_);
    new_training_ = std::move(split.train);
    new_held_out_ = {speech_.new_store, std::move(split.held_out), context, heads};
  }
  if (speech_.old_store) TakeOldHeldOut();
  TakeCriterion();
}

// What the model's training held out of the old speech.
void AdaptationRun::TakeOldHeldOut() {
  const HeldOutRun run = HeldOutOf(*model_, seed_);
  DataSplit old = SplitForRun(*speech_.old_store, run.options, run.seed);
  old_training_ = std::move(old.train);
  old_held_out_ = {speech_.old_store, LimitFrames(*speech_.old_store, old.held_out, options_.old_frames, seed_),
                   new_held_out_.context, new_held_out_.heads};
}

// Chain models are measured by what they learn.
void AdaptationRun::TakeCriterion() {
  if (IsChain(*model_) && !in_chunks()) {
    throw UsageError(
        "a chain model learns by its own criterion: give train.sequence.criterion=chain and train.sequence.chain-data, "
        "the folder that antiphon chain made of the new speech");
  }
  if (!in_chunks()) return;
  TrainingTask task = TaskFrom(model_);
  if (!speech_.hmm_json.empty()) task.hmm = hmm::HmmModel::FromJson(speech_.hmm_json);
  new_held_out_.sequence = SequenceTask::Open(task, options_.train);
  new_held_out_.sequence->KeepThoseThatAreKnown(*new_held_out_.store, new_held_out_.utterances);
  if (!speech_.old_store) return;
  if (speech_.old_chain_data.empty()) {
    log::Warn("without --chain-data nobody sees what a chain model forgets of old speech");
    old_held_out_ = {};
    return;
  }
  TrainOptions old = options_.train;
  old.sequence.chain_data = speech_.old_chain_data;
  old_held_out_.sequence = SequenceTask::Open(TaskFrom(model_), old);
  old_held_out_.sequence->KeepThoseThatAreKnown(*old_held_out_.store, old_held_out_.utterances);
}

// Of speech that the model has learnt before, what was held out then: it tells more than what it knows already.
void AdaptationRun::TakeHeldOut() {
  held_out_seed_ = seed_;
  if (speech_.held_out_store) return;
  HeldOutOptions& held_out = options_.train.held_out;
  const auto before = FindHeldOut(model_->descriptions, HeldOutKey(speech_.new_store->fingerprint()));
  if (!before) return;
  const std::string then = HeldOutText(before->options, before->seed);
  if (!options_.own_held_out) {
    held_out.by = before->options.by;
    held_out.fraction = before->options.fraction;
    held_out_seed_ = before->seed;
    log::Info("the model has learnt this speech before: what was held out then ({}) is held out again", then);
  } else if (const std::string own = HeldOutText(held_out, seed_); own != then) {
    log::Warn(
        "the model has learnt this speech before with {} held out, and here it is {}, as was asked for: it is measured "
        "on speech that it knew, and looks better than it is",
        then, own);
  }
}

void AdaptationRun::CheckSpeech() const {
  const data::FeatureKind kind = KindTakenBy(*model_);
  for (const auto& store : {speech_.new_store, speech_.held_out_store, speech_.old_store}) {
    if (store && store->feat_dim() != model_->feature_dim) {
      Throw<InputError>("the speech in '{}' has {} features per frame, the model takes {}: it was prepared for another",
                        store->folder().string(), store->feat_dim(), model_->feature_dim);
    }
    if (store) data::RequireKind(*store, kind, "the model");
  }
  if (speech_.old_store) {
    data::RequireKind(*speech_.new_store, data::KindOf(*speech_.old_store),
                      fmt::format("the training on '{}'", speech_.old_store->folder().string()));
  }
  if (speech_.old_store && speech_.old_store->num_pdfs() != model_->num_pdfs()) {
    Throw<InputError>("the old speech in '{}' has {} senones, the model {}: it is not what the model was trained on",
                      speech_.old_store->folder().string(), speech_.old_store->num_pdfs(), model_->num_pdfs());
  }
  // With no HMM given, methods that make a new output layer and those that keep the model's are both possible.
  if (const auto& held_out = speech_.held_out_store) {
    const int found = held_out->num_pdfs();
    if (found != speech_.new_store->num_pdfs() && (!speech_.hmm_json.empty() || found != model_->num_pdfs())) {
      Throw<InputError>("the held-out speech in '{}' has {} senones, the speech to adapt to in '{}' {}",
                        held_out->folder().string(), found, speech_.new_store->folder().string(),
                        speech_.new_store->num_pdfs());
    }
  }
  const std::string& hmm = speech_.hmm_json.empty() ? model_->hmm_json : speech_.hmm_json;
  if (speech_.words_known && !hmm.empty() && !IsSpeech(hmm::HmmModel::FromJson(hmm), speech_.new_store->CountPdfs())) {
    Throw<InputError>("'{}' holds nothing but silence: there is no speech to adapt to",
                      speech_.new_store->folder().string());
  }
}

DomainMeasures AdaptationRun::Measure(const nn::Model& model, const EvaluationData& speech) const {
  if (!speech.store || (!speech_.words_known && speech.store == speech_.new_store)) return {};
  if (speech.store->num_pdfs() > model.num_pdfs()) return {};
  EvaluationData suited = speech;
  suited.SuitTo(model.network);
  nn::Workspace workspace;
  const nn::LossResult loss = Evaluate(model.network, suited, workspace).loss;
  return {loss.loss(), loss.frame_accuracy(), loss.weight_sum};
}

ProbeResult AdaptationRun::Probe(const nn::Model& model, const std::string& layer) const {
  EvaluationData fresh = new_held_out_, old = old_held_out_;
  fresh.store = speech_.new_store;
  fresh.utterances = {};
  return train::Probe(model.network, layer, {old, fresh}, seed_);
}

// True if the adapted model's pdf-ids, so many, mean other states than this model's: losses of the two cannot be
// compared then.
bool AdaptationRun::HasOtherSenones(int num_pdfs) const {
  return adapt::HasOtherSenones(*model_, num_pdfs, speech_.hmm_json);
}

DomainMeasures AdaptationRun::MeasureNew(const nn::Model& model) const { return Measure(model, new_held_out_); }
DomainMeasures AdaptationRun::MeasureOld(const nn::Model& model) const { return Measure(model, old_held_out_); }

AdaptationResult AdaptationRun::Adapt(const std::string& name, const Config& keys, const fs::path& folder,
                                      const Config& optimizer) const {
  const auto method = WithContext([&] { return adapt::MethodRegistry::Get().Create(name, keys); },
                                  [&] { return fmt::format("method '{}'", name); });
  AdaptationResult result;
  if (!HasOtherSenones(speech_.new_store->num_pdfs())) result.new_before = MeasureNew(*model_);
  result.old_before = MeasureOld(*model_);
  nn::Model prepared = model_->Clone();
  StoreSpeech new_speech(speech_.new_store, new_training_);
  std::optional<StoreSpeech> old_speech;
  if (speech_.old_store) old_speech.emplace(speech_.old_store, std::vector<size_t>());
  adapt::MethodInput input{speech_.new_store->num_pdfs(), speech_.hmm_json, &new_speech, nullptr, seed_};
  if (old_speech) input.old_speech = &*old_speech;
  const adapt::Preparation preparation = method->Prepare(prepared, input);
  if (in_chunks() && preparation.speech != adapt::Speech::kNew) {
    Throw<UsageError>(
        "method '{}' reads speech by frames; a chain model learns from chunks: take kld, lhuc, lin, lhn "
        "or transfer",
        name);
  }
  result.changes = preparation.changes;

  std::optional<Candidate> best;
  for (const double share : preparation.original_shares) {
    const fs::path run =
        folder / (preparation.original_shares.size() > 1 ? fmt::format("rho-{:g}", share) : std::string("train"));
    if (preparation.original_shares.size() > 1) log::Info("rho {:g}", share);
    Candidate candidate = Train(prepared, preparation, share, method->makes_profile(), run, optimizer);
    result.trials.push_back(candidate.trial);
    if (!best || Better(candidate.trial, best->trial, result.old_before)) best = std::move(candidate);
  }
  if (preparation.speech == adapt::Speech::kOldAndNewUnlabelled) {
    result.probe_layer = adapt::SideTaskPlace(model_->network, preparation.side_task);
    result.probe_before = Probe(*model_, result.probe_layer);
    result.probe_after = Probe(best->model, result.probe_layer);
  }
  result.new_after = best->trial.new_speech;
  result.old_after = best->trial.old_speech;
  result.original_share = best->trial.original_share;
  std::string& history = best->model.descriptions["adapted_by"];
  history += fmt::format("{}{} {{{}}}", history.empty() ? "" : "; ", name, keys.ToToml());
  const fs::path adapted = folder / "adapted.safetensors";
  best->model.Save(adapted);
  if (speech_.old_word_errors && !HasOtherSenones(best->model.num_pdfs())) {
    WithContext(
        [&] {
          result.old_words = {speech_.old_word_errors(*model_, speech_.model_file),
                              speech_.old_word_errors(best->model, adapted)};
        },
        [&] {
          return fmt::format("counting the words of old speech; what was learnt is '{}', not judged yet",
                             adapted.string());
        });
  }
  Judge(method->makes_profile(), result);
  result.model = folder / "model.safetensors";
  // One of an earlier adaptation in this folder says nothing about this one.
  std::error_code error;
  fs::remove(folder / "profile.safetensors", error);
  if (error) ThrowIo("remove", folder / "profile.safetensors", error.value());
  (result.accepted ? best->model : *model_).Save(result.model);
  if (method->makes_profile() && result.accepted) {
    nn::SpeakerProfile profile = nn::ExtractProfile(best->model, *model_);
    profile.method = name;
    profile.speaker = speech_.speaker;
    result.profile = folder / "profile.safetensors";
    profile.Save(result.profile);
  }
  result.schedule = best->schedule;
  WriteFileAtomically(folder / "adaptation.json", ToJson(result) + "\n");
  WriteFileAtomically(folder / "report.html", AdaptationPage(result, name));
  return result;
}

AdaptationRun::Candidate AdaptationRun::Train(const nn::Model& prepared, const adapt::Preparation& preparation,
                                              double share, bool keeps_priors, const fs::path& folder,
                                              const Config& optimizer) const {
  Candidate candidate;
  candidate.model = prepared.Clone();
  if (preparation.trains) {
    TrainOptions options = options_.train;
    TakeShape(*model_, options);
    TrainingTask task = MakeTask(prepared, preparation, folder, options);
    task.optimizer = optimizer;
    candidate.schedule = DrawSchedule(task, options);
    if (share > 0) {
      if (!task.teachers.empty())
        throw UsageError("the unadapted model teaches (ρ > 0): leave out train.teacher.models");
      AddTeacher(model_, OldPosteriors(folder), kHoldingPosteriors, options, task);
      options.teacher.weight = share;
      options.teacher.temperature = 1;
    }
    const auto comm = comm::MakeSelfCommunicator();
    Trainer(std::move(task), options, *comm).Run(/*resume=*/false);
    candidate.model = nn::Model::Load(ModelFile(folder));
    if (share > 0) fs::remove(OldPosteriors(folder));
  }
  // What belongs to one speaker leaves the shared model's priors alone, and so does speech whose words nobody knows.
  // A chain model has those that its training writes, as many as it has states now.
  if (keeps_priors || preparation.speech == adapt::Speech::kOldAndNewUnlabelled) {
    candidate.model.log_priors = model_->log_priors;
  } else if (!in_chunks()) {
    candidate.model.log_priors = Priors(preparation, candidate.model.num_pdfs());
  }
  // Old speech stays what the first training did not see.
  if (const auto said = model_->descriptions.find("held_out"); said != model_->descriptions.end()) {
    candidate.model.descriptions["held_out"] = said->second;
  }
  if (!speech_.held_out_store) {
    candidate.model.descriptions[HeldOutKey(speech_.new_store->fingerprint())] =
        HeldOutText(options_.train.held_out, held_out_seed_);
  }
  adapt::Restore(candidate.model, *model_);
  candidate.trial = {share, MeasureNew(candidate.model), {}};
  if (!HasOtherSenones(candidate.model.num_pdfs())) candidate.trial.old_speech = MeasureOld(candidate.model);
  return candidate;
}

// What is trained on what.
TrainingTask AdaptationRun::MakeTask(const nn::Model& prepared, const adapt::Preparation& preparation,
                                     const fs::path& folder, TrainOptions& options) const {
  TrainingTask task = TaskFrom(std::make_shared<const nn::Model>(prepared.Clone()));
  task.folder = folder;
  task.seed = held_out_seed_;
  task.teachers = LoadTeachers(options.teacher);
  task.store = speech_.new_store;
  task.held_out_store = speech_.held_out_store;
  if (preparation.speech == adapt::Speech::kOldAndNewUnlabelled) {
    task.store = JoinStores({{speech_.old_store, old_training_, ""}}, fs::path(folder) += "-old");
    task.held_out_store = nullptr;
    options.side = preparation.side_task;
    options.side.store = speech_.new_store->folder().string();
    // What is measured on is not learnt from.
    if (options.side.learn > 0 && !new_training_.empty()) {
      const auto learnt = JoinStores({{speech_.new_store, new_training_, ""}}, fs::path(folder) += "-new");
      options.side.store = learnt->folder().string();
    }
  } else if (preparation.speech == adapt::Speech::kMixed) {
    const std::vector<StorePart> parts = {{speech_.old_store, old_training_, ""},
                                          {speech_.new_store, new_training_, "new-"}};
    task.store = JoinStores(parts, fs::path(folder) += "-store");
    for (size_t u = old_training_.size(); u < task.store->utterances().size(); ++u) task.mixing.utterances.push_back(u);
    task.mixing.repeat = preparation.mixing.repeat;
    task.mixing.tail = preparation.mixing.tail;
    if (!task.held_out_store) {
      task.held_out_store =
          JoinStores({{speech_.new_store, new_held_out_.utterances, ""}}, fs::path(folder) += "-held-out");
    }
  }
  return task;
}

// Where in the run the mixed speech stands.
std::vector<std::pair<double, double>> AdaptationRun::DrawSchedule(const TrainingTask& task,
                                                                   const TrainOptions& options) const {
  constexpr int kParts = 20;  // per epoch
  if (task.mixing.utterances.empty()) return {};
  data::Mixing mixing = task.mixing;
  mixing.epochs = options.schedule.epochs;
  const nn::Network& network = task.initial->network;
  data::MinibatchOptions data = options.data;
  data.carry_state = data.carry_state && network.recurrent();
  const data::MinibatchPool pool(task.store, data, SeedOf(task.seed, RandomStream::kData), 1, {}, {},
                                 network.time_context(), mixing);
  std::vector<std::pair<double, double>> schedule;
  for (int epoch = 0; epoch < options.schedule.epochs; ++epoch) {
    for (const double share : pool.MixedShares(epoch, kParts)) {
      schedule.emplace_back(static_cast<double>(schedule.size()) / kParts, share);
    }
  }
  return schedule;
}

// How often each state was spoken in training. Few frames say little of that: the old priors count as some more.
std::vector<float> AdaptationRun::Priors(const adapt::Preparation& preparation, int num_pdfs) const {
  const std::vector<int64_t> seen = speech_.new_store->CountPdfs(new_training_);
  std::vector<double> counts(seen.begin(), seen.end());
  counts.resize(static_cast<size_t>(num_pdfs));
  if (preparation.speech == adapt::Speech::kMixed) {
    const std::vector<int64_t> old = speech_.old_store->CountPdfs(old_training_);
    // A network expects what it saw last: of a mixture in the last part of the run, that part. New speech stands whole
    // in each epoch that has any.
    const double passes = preparation.mixing.tail * options_.train.schedule.epochs;
    const double times = preparation.mixing.repeat * std::ceil(passes - 1e-9);
    for (size_t s = 0; s < counts.size(); ++s) counts[s] = times * counts[s] + passes * static_cast<double>(old[s]);
    return hmm::LogPriors(counts);
  }
  const bool same_states = !HasOtherSenones(num_pdfs) && model_->log_priors.size() == counts.size();
  for (size_t s = 0; s < counts.size() && same_states; ++s) {
    counts[s] += options_.prior_frames * std::exp(static_cast<double>(model_->log_priors[s]));
  }
  return hmm::LogPriors(counts);
}

}  // namespace antiphon::train
