#include "train/targets.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/feature_kind.h"
#include "kernels/elementwise.h"
#include "kernels/softmax.h"
#include "train/soft_targets.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

constexpr const char* kStoreFirst = "store its posteriors first (antiphon targets) and give teacher.targets";

void RequireSameSizes(const nn::Model& teacher, const data::FrameStore& store) {
  if (teacher.feature_dim != store.feat_dim() || teacher.num_pdfs() != store.num_pdfs()) {
    Throw<UsageError>("the teacher takes {} features and tells {} pdf-ids apart, the store has {} and {}",
                      teacher.feature_dim, teacher.num_pdfs(), store.feat_dim(), store.num_pdfs());
  }
}

// One that teaches beside a criterion of chunks gives its outputs for the same frames as the student.
void RequireChunksFit(const nn::Model& teacher, const data::FrameStore& store) {
  RequireSameSizes(teacher, store);
  data::RequireKind(store, KindTakenBy(teacher), "the teacher");
}

void RequireTargetsFit(const nn::Model& teacher, const data::FrameStore& store, const Heads& heads,
                       data::Context context) {
  RequireSameTask(teacher, store);
  if (teacher.left_context > context.left || teacher.right_context > context.right) {
    Throw<UsageError>("the teacher sees {} frames before and {} after, the student {} and {}: {}", teacher.left_context,
                      teacher.right_context, context.left, context.right, kStoreFirst);
  }
  if (teacher.network.needs_sequences()) {
    Throw<UsageError>("the teacher looks at several frames of an utterance, or is recurrent: {}", kStoreFirst);
  }
  if (teacher.frames_per_forward != heads.count) {
    Throw<UsageError>("the teacher has {} heads, the student {}: {}", teacher.frames_per_forward, heads.count,
                      kStoreFirst);
  }
  if (teacher.first_frame_offset != heads.first_offset) {
    Throw<UsageError>(
        "the teacher's first output is for the frame {:+} from the middle of its window, the student's for the frame "
        "{:+}: {}",
        teacher.first_frame_offset, heads.first_offset, kStoreFirst);
  }
}

}  // namespace

void RequireSameTask(const nn::Model& teacher, const data::FrameStore& store) {
  RequireSameSizes(teacher, store);
  if (teacher.frame_subsampling > 1) {
    Throw<UsageError>("the teacher's states last {} frames of the store each: it has no posteriors for single ones",
                      teacher.frame_subsampling);
  }
  data::RequireKind(store, KindTakenBy(teacher), "the teacher");
}

size_t UtteranceOfFrame(const data::FrameStore& store, int64_t frame_id) {
  const auto utterances = store.utterances();
  const auto after = std::upper_bound(utterances.begin(), utterances.end(), frame_id,
                                      [](int64_t f, const auto& u) { return f < u.first_frame; });
  return static_cast<size_t>(after - utterances.begin()) - 1;
}

TargetMaker::TargetMaker(std::shared_ptr<const data::FrameStore> store, const Heads& heads, Teachers teachers,
                         const TeacherOptions& options, data::Context context, Precision precision,
                         std::unique_ptr<MinibatchLoss> sequence)
    : store_(std::move(store)),
      heads_(heads),
      teachers_(std::move(teachers)),
      options_(options),
      context_(context),
      precision_(precision),
      sequence_(std::move(sequence)),
      workspaces_(teachers_.size()) {
  for (const auto& teacher : teachers_) {
    sequence_ ? RequireChunksFit(*teacher, *store_) : RequireTargetsFit(*teacher, *store_, heads, context);
  }
  if (!options_.targets.empty()) {
    if (!teachers_.empty()) throw UsageError("teacher.models and teacher.targets: give one of them");
    stored_ = std::make_shared<const SoftTargets>(options_.targets, *store_);
  }
  if (store_->labelled()) return;
  if ((teachers_.empty() && stored_ == nullptr) || options_.weight < 1) {
    Throw<UsageError>(
        "the store '{}' has no alignment: a teacher must say it all (teacher.weight=1 and teacher.models "
        "or teacher.targets)",
        store_->folder().string());
  }
}

nn::LossTargets TargetMaker::Make(const data::Minibatch& minibatch) {
  nn::LossTargets targets;
  targets.heads = heads_.count;
  targets.frame_weights = minibatch.weights;
  if (sequence_) {
    sequence_->SetMinibatch(minibatch);
    targets.sequence = sequence_.get();
  }
  const bool taught = (!teachers_.empty() || stored_ != nullptr) && minibatch.features.rows() > 0;
  if (!teachers_.empty() && !sequence_ && minibatch.features.rows() != std::ssize(minibatch.frame_ids)) {
    Throw<UsageError>("the student looks at several frames of an utterance, its teacher at one window: {}",
                      kStoreFirst);
  }
  if (heads_.count > 1 || heads_.first_offset != 0 || stored_ != nullptr) FindHeadFrames(minibatch);
  if (!taught || options_.weight < 1) targets.pdf_ids = PdfIds(minibatch);
  if (!taught) return targets;
  targets.soft = stored_ != nullptr ? StoredPosteriors(minibatch) : Posteriors(minibatch);
  targets.soft_weight = options_.weight;
  targets.temperature = options_.temperature;
  return targets;
}

// Which frame each head of each row is for.
void TargetMaker::FindHeadFrames(const data::Minibatch& minibatch) {
  head_frames_.clear();
  const auto utterances = store_->utterances();
  for (const int64_t frame : minibatch.frame_ids) {
    if (frame < 0) {  // padding
      head_frames_.insert(head_frames_.end(), static_cast<size_t>(heads_.count), -1);
      continue;
    }
    const auto& utterance = utterances[UtteranceOfFrame(*store_, frame)];
    const int64_t last = utterance.first_frame + utterance.num_frames - 1;
    for (int k = 0; k < heads_.count; ++k) {
      head_frames_.push_back(std::clamp(frame + heads_.first_offset + k, utterance.first_frame, last));
    }
  }
}

std::span<const int32_t> TargetMaker::PdfIds(const data::Minibatch& minibatch) {
  if (heads_.count == 1 && heads_.first_offset == 0) return minibatch.pdf_ids;
  pdf_ids_.clear();
  for (const int64_t frame : head_frames_) {
    if (frame < 0) {
      pdf_ids_.push_back(0);
      continue;
    }
    const size_t u = UtteranceOfFrame(*store_, frame);
    pdf_ids_.push_back(store_->PdfId(u, static_cast<int>(frame - store_->utterances()[u].first_frame)));
  }
  return pdf_ids_;
}

ConstMatrixView TargetMaker::StoredPosteriors(const data::Minibatch& minibatch) {
  const int64_t classes = store_->num_pdfs();
  posteriors_.Resize(std::ssize(minibatch.frame_ids), heads_.count * classes);
  for (size_t i = 0; i < head_frames_.size(); ++i) {
    const std::span<float> row(posteriors_.data() + static_cast<int64_t>(i) * classes, static_cast<size_t>(classes));
    if (head_frames_[i] < 0) {
      std::ranges::fill(row, 0.0F);
    } else {
      stored_->Read(head_frames_[i], options_.temperature, row);
    }
  }
  return posteriors_;
}

ConstMatrixView TargetMaker::Posteriors(const data::Minibatch& minibatch) {
  const ConstMatrixView features = minibatch.features;
  nn::ExecContext context;
  context.precision = precision_;
  context.sequences = minibatch.sequences;
  for (size_t i = 0; i < teachers_.size(); ++i) {
    const nn::Model& teacher = *teachers_[i];
    const int64_t first = int64_t{teacher.feature_dim} * (context_.left - teacher.left_context);
    narrow_ = Matrix(features.Cols(first, teacher.network.in_dim()));
    const MatrixView z = teacher.network.Forward(context, narrow_, workspaces_[i]);
    if (z.rows() != std::ssize(minibatch.frame_ids)) {
      Throw<UsageError>(
          "the teacher gives {} outputs for a minibatch of which the student gives {}: it must look at as "
          "many frames around, and at every {}th",
          z.rows(), minibatch.frame_ids.size(), teacher.network.time_context().stride);
    }
    const MatrixView heads(z.data(), z.rows() * heads_.count, z.cols() / heads_.count);
    if (options_.temperature != 1) Scale(static_cast<float>(1 / options_.temperature), heads, heads);
    Softmax(false, heads, heads);
    const auto share = static_cast<float>(1.0 / static_cast<double>(teachers_.size()));
    if (i == 0) {
      posteriors_.Resize(z.rows(), z.cols());
      Scale(share, z, posteriors_);
    } else {
      AddScaled(share, z, posteriors_);
    }
  }
  return posteriors_;
}

}  // namespace antiphon::train
