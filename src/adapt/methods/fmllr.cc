// Feature-space MLLR: the affine transform of one speaker's features under which they are likeliest, given the senones
// that were said. Nothing is trained: sums over the speech and a linear system per dimension.
//
// Each senone is a Gaussian with diagonal covariance, of the features that the model was trained on (old speech) under
// its own alignment; silence does not count. For models whose features come from Gaussian mixtures, antiphon decode
// estimates transforms by those mixtures itself (hmm/gmm_fmllr.h).
// Source: Gales, Computer Speech and Language 1998; hmm/fmllr.h.
#include "hmm/fmllr.h"

#include <algorithm>

#include "adapt/layer_groups.h"
#include "base/error.h"
#include "hmm/gmm_fmllr.h"

namespace antiphon::adapt {
namespace {

struct FmllrOptions {
  double min_frames = 500;
  double min_state_frames = 20;
  template <class V>
  void Visit(V& v) {
    v("min-frames", min_frames, Range{1, 1e12}, "frames of speech that the transform needs");
    v("min-state-frames", min_state_frames, Range{2, 1e12}, "frames of old speech that a senone's Gaussian needs");
  }
};

// Sums of old speech by senone.
struct States {
  States(int num_pdfs, int dim) : count(static_cast<size_t>(num_pdfs)), mean(num_pdfs, dim), precision(num_pdfs, dim) {}
  std::vector<double> count;
  DoubleMatrix mean;       // at first Σx
  DoubleMatrix precision;  // at first Σx²

  void Add(const AlignedUtterance& utterance) {
    for (int64_t t = 0; t < utterance.features.rows(); ++t) {
      const auto s = utterance.pdf_ids[static_cast<size_t>(t)];
      count[static_cast<size_t>(s)] += 1;
      for (int64_t c = 0; c < mean.cols(); ++c) {
        const auto x = static_cast<double>(utterance.features(t, c));
        mean(s, c) += x;
        precision(s, c) += x * x;
      }
    }
  }

  // Variances are held above a hundredth of the mean variance of their dimension.
  void Finish(double min_count) {
    double total = 0;
    for (const double n : count) total += n;
    for (int64_t c = 0; c < mean.cols(); ++c) {
      double sum = 0, squares = 0;
      for (int64_t s = 0; s < mean.rows(); ++s) {
        sum += mean(s, c);
        squares += precision(s, c);
      }
      const double floor = 0.01 * (squares / total - sum / total * sum / total) + 1e-10;
      for (int64_t s = 0; s < mean.rows(); ++s) {
        const double n = count[static_cast<size_t>(s)];
        if (n < min_count) continue;
        mean(s, c) /= n;
        precision(s, c) = 1 / std::max(precision(s, c) / n - mean(s, c) * mean(s, c), floor);
      }
    }
  }
};

class Fmllr : public Method {
 public:
  explicit Fmllr(const FmllrOptions& options) : options_(options) {}
  bool makes_profile() const override { return true; }
  bool needs_old_speech() const override { return true; }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    AlignedSpeech& fresh = RequireNewSpeech(input, "fmllr");
    AlignedSpeech& old = RequireOldSpeech(input, "fmllr");
    RequireSameSenones(model, input, "fmllr");
    States states(model.num_pdfs(), model.feature_dim);
    old.Rewind();
    while (const auto utterance = old.Next()) states.Add(*utterance);
    states.Finish(options_.min_state_frames);
    hmm::FmllrEstimator estimator(model.feature_dim);
    const std::vector<bool> spoken = SpokenStates(model);
    fresh.Rewind();
    while (const auto utterance = fresh.Next()) Accumulate(states, spoken, *utterance, estimator);
    const auto result = estimator.Estimate(options_.min_frames);
    if (!result.estimated) {
      Throw<InputError>("'fmllr' needs {:.0f} frames of speech (fmllr.min-frames), there are {:.0f}",
                        options_.min_frames, estimator.posterior());
    }
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    InsertFrameTransform(model, 1, parts);
    const ConstMatrixView transform = result.transform;
    parts.front().tensors.emplace("weight", Matrix(transform.Cols(0, model.feature_dim)));
    Matrix bias(1, model.feature_dim);
    for (int i = 0; i < model.feature_dim; ++i) bias(0, i) = transform(i, model.feature_dim);
    parts.front().tensors.emplace("bias", std::move(bias));
    Preparation preparation;
    preparation.trains = false;
    preparation.changes = {
        {parts.front().name, fmt::format("transform from {:.0f} frames, {:.3f} nats per frame gained",
                                         estimator.posterior(), result.improvement)}};
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  static std::vector<bool> SpokenStates(const nn::Model& model) {
    if (model.hmm_json.empty()) return std::vector<bool>(static_cast<size_t>(model.num_pdfs()), true);
    return hmm::SpokenPdfs(hmm::HmmModel::FromJson(model.hmm_json));
  }

  void Accumulate(const States& states, const std::vector<bool>& spoken, const AlignedUtterance& utterance,
                  hmm::FmllrEstimator& estimator) const {
    const int64_t dim = utterance.features.cols();
    Matrix frames(utterance.features.rows(), dim), precision(frames.rows(), dim), mean(frames.rows(), dim);
    int64_t used = 0;
    for (int64_t t = 0; t < utterance.features.rows(); ++t) {
      const auto s = utterance.pdf_ids[static_cast<size_t>(t)];
      const auto state = static_cast<size_t>(s);
      if (!spoken[state] || states.count[state] < options_.min_state_frames) continue;
      for (int64_t c = 0; c < dim; ++c) {
        frames(used, c) = utterance.features(t, c);
        precision(used, c) = static_cast<float>(states.precision(s, c));
        mean(used, c) = static_cast<float>(states.precision(s, c) * states.mean(s, c));
      }
      ++used;
    }
    if (used == 0) return;
    estimator.Accumulate(ConstMatrixView(frames).Rows(0, used), ConstMatrixView(precision).Rows(0, used),
                         ConstMatrixView(mean).Rows(0, used), static_cast<double>(used));
  }

  FmllrOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "fmllr",
                   [](const Config& config) { return std::make_unique<Fmllr>(ReadOptions<FmllrOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
