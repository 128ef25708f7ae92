#include "train/targets.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/softmax.h"

namespace antiphon::train {
namespace {

void RequireFit(const nn::Model& teacher, const data::FrameStore& store, const Heads& heads, data::Context context) {
  if (teacher.feature_dim != store.feat_dim() || teacher.num_pdfs() != store.num_pdfs()) {
    Throw<UsageError>("the teacher takes {} features and tells {} pdf-ids apart, the store has {} and {}",
                      teacher.feature_dim, teacher.num_pdfs(), store.feat_dim(), store.num_pdfs());
  }
  if (teacher.left_context > context.left || teacher.right_context > context.right) {
    Throw<UsageError>("the teacher sees {} frames before and {} after, the student {} and {}: give it as many",
                      teacher.left_context, teacher.right_context, context.left, context.right);
  }
  if (teacher.frames_per_forward != heads.count) {
    Throw<UsageError>("the teacher has {} heads, the student {}: both need as many", teacher.frames_per_forward,
                      heads.count);
  }
}

}  // namespace

TargetMaker::TargetMaker(std::shared_ptr<const data::FrameStore> store, const Heads& heads, Teachers teachers,
                         const TeacherOptions& options, data::Context context, Precision precision)
    : store_(std::move(store)),
      heads_(heads),
      teachers_(std::move(teachers)),
      options_(options),
      context_(context),
      precision_(precision),
      workspaces_(teachers_.size()) {
  for (const auto& teacher : teachers_) RequireFit(*teacher, *store_, heads, context);
}

nn::LossTargets TargetMaker::Make(const data::Minibatch& minibatch) {
  nn::LossTargets targets;
  targets.heads = heads_.count;
  targets.frame_weights = minibatch.weights;
  if (sequence_) {
    sequence_->SetFrames(minibatch.frame_ids);
    targets.sequence = sequence_.get();
  }
  const bool taught = !teachers_.empty() && minibatch.features.rows() > 0;
  if (!taught || options_.weight < 1) targets.pdf_ids = PdfIds(minibatch);
  if (!taught) return targets;
  targets.soft = Posteriors(minibatch.features);
  targets.soft_weight = options_.weight;
  targets.temperature = options_.temperature;
  return targets;
}

std::span<const int32_t> TargetMaker::PdfIds(const data::Minibatch& minibatch) {
  if (heads_.count == 1 && heads_.first_offset == 0) return minibatch.pdf_ids;
  pdf_ids_.clear();
  const auto utterances = store_->utterances();
  for (const int64_t frame : minibatch.frame_ids) {
    const auto after = std::upper_bound(utterances.begin(), utterances.end(), frame,
                                        [](int64_t f, const auto& u) { return f < u.first_frame; });
    const auto u = static_cast<size_t>(after - utterances.begin()) - 1;
    const auto t = static_cast<int>(frame - utterances[u].first_frame) + heads_.first_offset;
    for (int k = 0; k < heads_.count; ++k) {
      pdf_ids_.push_back(store_->PdfId(u, std::clamp(t + k, 0, utterances[u].num_frames - 1)));
    }
  }
  return pdf_ids_;
}

ConstMatrixView TargetMaker::Posteriors(ConstMatrixView features) {
  nn::ExecContext context;
  context.precision = precision_;
  for (size_t i = 0; i < teachers_.size(); ++i) {
    const nn::Model& teacher = *teachers_[i];
    const int64_t first = int64_t{teacher.feature_dim} * (context_.left - teacher.left_context);
    narrow_ = Matrix(features.Cols(first, teacher.network.in_dim()));
    const MatrixView z = teacher.network.Forward(context, narrow_, workspaces_[i]);
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
