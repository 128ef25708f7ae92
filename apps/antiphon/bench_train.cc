// antiphon bench train: frames per second of training steps on generated frames, beside the bare matrix products of the
// same shapes, which are the limit. Steps and products take turns, so that a slow moment of the machine hits both. A
// network from a file may have any layers; its products are those whose gradients' factors it hands out. Heads of its
// own (side-task) learn from the same targets.

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/compute_threads.h"
#include "bench_network.h"
#include "command.h"
#include "device/device.h"
#include "kernels/elementwise.h"
#include "math/gemm.h"
#include "math/padded_matrix.h"
#include "nn/layer_traits.h"
#include "nn/loss.h"
#include "nn/network.h"
#include "nn/side_targets.h"
#include "optim/optimizer.h"

namespace antiphon::app {
namespace {

constexpr int kStepsPerTurn = 4;
constexpr int kWarmUpSteps = 12;  // the natural gradient updates its covariances in each of the first ten

struct BenchTrainOptions {
  std::string layers = "462,5x2048,10217";
  std::string activation = "sigmoid";
  std::string network;
  int inputs = 40;
  int outputs = 0;
  int chunk_frames = 0;
  int minibatch = 256;
  std::string precision = "fp32";
  std::string optimizer = "sgd";
  double momentum = 0;
  double max_change = 0;
  double layer_max_change = 0;
  double weight_decay = 0;
  double seconds = 10;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, kLayersHelp);
    VisitActivation(v, activation);
    v("network", network, "file with [[layer]] tables, instead of --layers");
    v("inputs", inputs, Range{1, 1 << 20}, "values per frame, for --network");
    v("outputs", outputs, Range{0, 1 << 24}, "senones, for --network; 0: as the file says");
    v("chunk-frames", chunk_frames, Range{0, 1 << 20},
      "frames of each of minibatch/chunk-frames streams, for networks that look at several; 0: frames stand alone");
    v("minibatch", minibatch, Range{1, 1 << 20}, "frames per step");
    v("precision", precision, OneOf{{"fp32", "bf16"}}, "of the matrix products; weights stay fp32");
    v("optimizer", optimizer, "type of the optimiser");
    v("momentum", momentum, Range{0, 0.9999}, "for sgd, or natural-gradient's step");
    v("max-change", max_change, Range{0, 1e9}, "for sgd, or natural-gradient's step");
    v("layer-max-change", layer_max_change, Range{0, 1e9}, "likewise");
    v("weight-decay", weight_decay, Range{0, 1e3}, "likewise, coupled");
    v("seconds", seconds, Range{0.1, 3600}, "time to measure");
  }
};

// Forward, backward-data and weight-gradient products of every layer, with derivatives padded as training has them.
// Results go to memory of their own, so that the factors stay ordinary numbers.
class BareProducts {
 public:
  BareProducts(const std::vector<int>& dims, int minibatch, Precision precision) : precision_(precision) {
    for (size_t i = 0; i < dims.size(); ++i) {
      values_.push_back(Filled(minibatch, dims[i]));
      halves_.push_back(Halved<Bf16Matrix>(values_.back()));
      derivatives_.emplace_back().Resize(minibatch, dims[i]);
      Scale(1.0f, values_.back(), derivatives_.back());
      half_derivatives_.push_back(Halved<PaddedMatrix<Bf16>>(values_.back()));
      results_.emplace_back(minibatch, dims[i]);
      if (i == 0) continue;
      weights_.push_back(Filled(dims[i], dims[i - 1]));
      half_weights_.push_back(Halved<Bf16Matrix>(weights_.back()));
      gradients_.emplace_back(dims[i], dims[i - 1]);
    }
    for (size_t i = 0; i < weights_.size(); ++i) block_rows_.push_back(FastestBlock(i));
  }

  void Run() {
    const size_t layers = weights_.size();
    for (size_t i = 0; i < layers; ++i) {
      Product(Transpose::kNo, values_[i], halves_[i], Transpose::kYes, weights_[i], half_weights_[i], results_[i + 1]);
    }
    for (size_t i = layers; i-- > 0;) {
      if (i > 0) {
        Product(Transpose::kNo, derivatives_[i + 1], half_derivatives_[i + 1], Transpose::kNo, weights_[i],
                half_weights_[i], results_[i]);
      }
      WeightGradient(i, block_rows_[i]);
    }
  }

 private:
  void Product(Transpose ta, ConstMatrixView a, ConstBf16View a16, Transpose tb, ConstMatrixView b, ConstBf16View b16,
               MatrixView c) const {
    if (precision_ == Precision::kFp32) return Gemm(ta, a, tb, b, c);
    Gemm(ta, a16, tb, b16, c);
  }
  void WeightGradient(size_t layer, int64_t block) {
    const MatrixView gradient = gradients_[layer].view();
    for (int64_t first = 0; first < gradient.rows(); first += block) {
      const int64_t count = std::min(block, gradient.rows() - first);
      const MatrixView rows = gradient.Rows(first, count);
      Product(Transpose::kYes, std::as_const(derivatives_[layer + 1]).view().Cols(first, count),
              std::as_const(half_derivatives_[layer + 1]).view().Cols(first, count), Transpose::kNo, values_[layer],
              halves_[layer], rows);
    }
  }

  int64_t FastestBlock(size_t layer) {
    const int64_t rows = gradients_[layer].rows();
    int64_t best = rows;
    double best_seconds = std::numeric_limits<double>::infinity();
    for (const int64_t block : {rows, int64_t{1024}, int64_t{512}}) {
      if (block > rows) continue;
      WeightGradient(layer, block);
      std::vector<double> seconds;
      for (int i = 0; i < 5; ++i) {
        StopWatch watch;
        WeightGradient(layer, block);
        seconds.push_back(watch.Lap());
      }
      if (Median(seconds) < best_seconds) {
        best_seconds = Median(seconds);
        best = block;
      }
    }
    return best;
  }

  static Matrix Filled(int64_t rows, int64_t cols) {
    Matrix m(rows, cols);
    for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = 0.1f * static_cast<float>(i % 7 - 3);
    return m;
  }
  template <class M>
  static M Halved(const Matrix& m) {
    M h;
    h.Resize(m.rows(), m.cols());
    ConvertToBf16(1.0f, m, h);
    return h;
  }

  Precision precision_;
  std::vector<Matrix> values_;
  std::vector<Bf16Matrix> halves_;
  std::vector<PaddedMatrix<float>> derivatives_;
  std::vector<PaddedMatrix<Bf16>> half_derivatives_;
  std::vector<Matrix> results_;
  std::vector<Matrix> weights_;
  std::vector<Bf16Matrix> half_weights_;
  std::vector<Matrix> gradients_;
  std::vector<int64_t> block_rows_;
};

// Rows, inputs and outputs of a product of a layer.
struct ProductShape {
  int64_t rows = 0, in = 0, out = 0;
};

// Notes which products a backward pass is made of, from the top layer down.
class ShapeSink : public nn::NullGradientSink {
 public:
  void TakeFactors(nn::Parameter&, nn::Parameter*, const nn::GradientFactors& factors) override {
    shapes.push_back({factors.x.rows(), factors.x.cols(), factors.g.cols()});
  }
  std::vector<ProductShape> shapes;
};

// The three products of each shape, but for the derivative by the lowest inputs.
class ShapeProducts {
 public:
  ShapeProducts(std::vector<ProductShape> shapes, Precision precision)
      : shapes_(std::move(shapes)), precision_(precision) {
    int64_t inputs = 0, outputs = 0, weights = 0;
    for (const ProductShape& s : shapes_) {
      inputs = std::max(inputs, s.rows * s.in);
      outputs = std::max(outputs, s.rows * s.out);
      weights = std::max(weights, s.in * s.out);
    }
    Fill(inputs, x_, x16_);
    Fill(outputs, g_, g16_);
    Fill(weights, w_, w16_);
    result_ = Matrix(1, std::max({inputs, outputs, weights}));
  }

  double operations() const {
    double sum = 0;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const ProductShape& s = shapes_[i];
      sum += (i + 1 < shapes_.size() ? 6.0 : 4.0) * static_cast<double>(s.rows * s.in * s.out);
    }
    return sum;
  }

  void Run() {
    for (size_t i = shapes_.size(); i-- > 0;) {
      const auto& [rows, in, out] = shapes_[i];
      Product(Transpose::kNo, {x_, x16_, rows, in}, Transpose::kYes, {w_, w16_, out, in}, rows, out);
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const auto& [rows, in, out] = shapes_[i];
      if (i + 1 < shapes_.size()) {
        Product(Transpose::kNo, {g_, g16_, rows, out}, Transpose::kNo, {w_, w16_, out, in}, rows, in);
      }
      Product(Transpose::kYes, {g_, g16_, rows, out}, Transpose::kNo, {x_, x16_, rows, in}, out, in);
    }
  }

 private:
  struct Factor {
    const Matrix& full;
    const Bf16Matrix& half;
    int64_t rows, cols;
    ConstMatrixView view() const { return {full.data(), rows, cols}; }
    ConstBf16View view16() const { return {half.data(), rows, cols}; }
  };
  void Product(Transpose ta, const Factor& a, Transpose tb, const Factor& b, int64_t rows, int64_t cols) {
    const MatrixView c(result_.data(), rows, cols);
    if (precision_ == Precision::kFp32) return Gemm(ta, a.view(), tb, b.view(), c);
    Gemm(ta, a.view16(), tb, b.view16(), c);
  }
  static void Fill(int64_t size, Matrix& full, Bf16Matrix& half) {
    full = Matrix(1, size);
    for (int64_t i = 0; i < size; ++i) full.data()[i] = 0.1f * static_cast<float>(i % 7 - 3);
    half.Resize(1, size);
    ConvertToBf16(1.0f, full, half);
  }

  std::vector<ProductShape> shapes_;
  Precision precision_;
  Matrix x_, g_, w_, result_;
  Bf16Matrix x16_, g16_, w16_;
};

class TrainingSteps {
 public:
  TrainingSteps(const BenchTrainOptions& options, nn::Network network, uint64_t seed)
      : network_(std::move(network)),
        layout_{.streams = std::max(1, options.minibatch / std::max(1, options.chunk_frames)),
                .frames = options.chunk_frames / network_.time_context().stride} {
    ctx_.precision = ParsePrecision(options.precision);
    ctx_.training = true;
    frames_ = options.minibatch;
    int64_t rows = options.minibatch;
    if (options.chunk_frames > 0) {
      ctx_.sequences = &layout_;
      if (options.chunk_frames % network_.time_context().stride != 0) {
        Throw<UsageError>("--chunk-frames {} is no multiple of the network's stride, {}", options.chunk_frames,
                          network_.time_context().stride);
      }
      rows = network_.time_context().InputFrames(layout_.frames) * layout_.streams;
      frames_ = layout_.streams * options.chunk_frames;
    } else if (network_.needs_sequences()) {
      throw UsageError("the network looks at several frames: give --chunk-frames");
    }
    optimizer_ = optim::MakeOptimizer(OptimizerConfig(options), network_);
    Rng rng(seed);
    x_ = Matrix(rows, network_.in_dim());
    for (int64_t i = 0; i < x_.size(); ++i) x_.data()[i] = static_cast<float>(rng.Normal());
    targets_.resize(static_cast<size_t>(network_.Forward(ctx_, x_, ws_).rows()));
    for (int32_t& t : targets_) t = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(network_.out_dim())));
    SideLikeTheMain();
  }

  /// Of the chunks; those around them do not count.
  int frames() const { return frames_; }

  std::vector<ProductShape> Shapes() {
    ShapeSink sink;
    network_.Backward(ctx_, network_.Forward(ctx_, x_, ws_), ws_, sink);
    return sink.shapes;
  }

  // One step; adds the time of each part to `shares`.
  void Run(std::map<std::string, double>& shares) {
    StopWatch watch;
    const MatrixView y = network_.Forward(ctx_, x_, ws_);
    shares["forward"] += watch.Lap();
    loss_ = nn::SoftmaxCrossEntropy(y, {.pdf_ids = targets_}, y).loss();
    shares["loss"] += watch.Lap();
    optimizer_->BeginStep(0.01);
    network_.Backward(ctx_, y, ws_, *optimizer_, false,
                      [&](size_t i) { shares["backward " + network_.layer_name(i)] += watch.Lap(); });
    optimizer_->EndStep();
    network_.AfterStep(ctx_.step);
    shares["end of step"] += watch.Lap();
    ++ctx_.step;
  }

  double loss() const { return loss_; }
  const nn::Network& network() const { return network_; }

 private:
  static Config OptimizerConfig(const BenchTrainOptions& options) {
    Config config;
    config.Set("type", "\"" + options.optimizer + "\"");
    const std::string prefix = options.optimizer == "natural-gradient" ? "step." : "";
    if (options.momentum > 0) config.Set(prefix + "momentum", fmt::format("{}", options.momentum));
    if (options.max_change > 0) config.Set(prefix + "max-change", fmt::format("{}", options.max_change));
    if (options.layer_max_change > 0) {
      config.Set(prefix + "layer-max-change", fmt::format("{}", options.layer_max_change));
    }
    if (options.weight_decay > 0) {
      config.Set(prefix + "weight-decay", fmt::format("{}", options.weight_decay));
      config.Set(prefix + "decoupled-decay", "false");
    }
    return config;
  }

  void SideLikeTheMain() {
    for (size_t i = 0; i < network_.num_layers(); ++i) {
      if (!nn::TraitsOf(network_, i).auxiliary) continue;
      const Config layer = network_.layer(i).ToConfig();
      if (layer.Int("classes") == network_.out_dim()) side_.tasks.push_back({*layer.Text("task"), targets_});
    }
    ctx_.side_targets = &side_;
  }

  nn::ExecContext ctx_;
  nn::Network network_;
  SequenceLayout layout_;
  nn::SideTargets side_;
  int frames_ = 0;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Matrix x_;
  std::vector<int32_t> targets_;
  nn::Workspace ws_;
  double loss_ = 0;
};

struct Measured {
  std::vector<double> step_seconds;     // per turn
  std::vector<double> product_seconds;  // per turn
  std::map<std::string, double> shares;
};

// Each turn takes several steps, since some optimisers do more work in every fourth.
Measured TakeTurns(TrainingSteps& steps, const std::function<void()>& products, double seconds) {
  Measured measured;
  products();
  for (int i = 0; i < kWarmUpSteps; ++i) steps.Run(measured.shares);
  measured.shares.clear();
  StopWatch watch;
  for (double spent = 0; spent < seconds || measured.step_seconds.size() < 3;) {
    watch.Lap();
    for (int i = 0; i < kStepsPerTurn; ++i) products();
    measured.product_seconds.push_back(watch.Lap());
    for (int i = 0; i < kStepsPerTurn; ++i) steps.Run(measured.shares);
    measured.step_seconds.push_back(watch.Lap());
    spent += measured.product_seconds.back() + measured.step_seconds.back();
  }
  double total = 0;
  for (const auto& [name, share] : measured.shares) total += share;
  for (auto& [name, share] : measured.shares) share /= total;
  return measured;
}

nn::Network NetworkFor(const BenchTrainOptions& options, uint64_t seed) {
  if (!options.network.empty()) {
    return {Config::Load(options.network), options.inputs, options.outputs, seed};
  }
  const std::vector<int> dims = ParseLayers(options.layers);
  return {NetworkOf(dims, options.activation), dims.front(), dims.back(), seed};
}

void BenchTrain(const BenchTrainOptions& options, CommandContext& context) {
  SetComputeThreads(context.threads());
  TrainingSteps steps(options, NetworkFor(options, context.seed()), context.seed());
  const Precision precision = ParsePrecision(options.precision);
  std::optional<BareProducts> products;
  std::optional<ShapeProducts> of_network;
  if (options.network.empty()) {
    products.emplace(ParseLayers(options.layers), options.minibatch, precision);
  } else {
    of_network.emplace(steps.Shapes(), precision);
  }
  const Measured measured = TakeTurns(
      steps, [&] { products ? products->Run() : of_network->Run(); }, options.seconds);
  const double rate = kStepsPerTurn * steps.frames() / Median(measured.step_seconds);

  const std::string cpu = DescribeCpu();
  context.Print("{} parameters, minibatch {}, {}, {} thread(s), {} on {}", steps.network().num_parameters(),
                options.minibatch, options.precision, context.threads(), GemmBackend(), cpu);
  context.Print("{:10.1f} frames/s in training steps", rate);
  nlohmann::json json = {{"frames_per_second", rate},
                         {"minibatch", options.minibatch},
                         {"chunk_frames", options.chunk_frames},
                         {"precision", options.precision},
                         {"optimizer", options.optimizer},
                         {"parameters", steps.network().num_parameters()},
                         {"threads", context.threads()},
                         {"steps", kStepsPerTurn * measured.step_seconds.size()},
                         {"loss", steps.loss()},
                         {"time_shares", measured.shares},
                         {"backend", GemmBackend()},
                         {"cpu", cpu}};
  const double limit = kStepsPerTurn * steps.frames() / Median(measured.product_seconds);
  context.Print("{:10.1f} frames/s if there were only the matrix products", limit);
  context.Print("{:10.1f} % of the limit", 100 * rate / limit);
  json.update({{"limit_frames_per_second", limit}, {"share_of_limit", rate / limit}});
  if (of_network) {
    const double operations = of_network->operations() * limit / steps.frames();
    context.Print("{:10.1f} billion operations/s in these products", operations / 1e9);
    json["product_operations_per_second"] = operations;
  }
  if (products) {
    json.update({{"layers", options.layers}, {"activation", options.activation}});
  }
  for (const auto& [name, share] : measured.shares) context.Print("{:9.1f} %  {}", 100 * share, name);
  context.SetResult(json.dump());
}

REGISTER_COMMAND(
    "bench train", BenchTrainOptions, BenchTrain,
    {.summary = "speed of training steps on generated frames",
     .description = "Runs training steps and, in turn with them, the bare matrix products of the same shapes, "
                    "which are the limit, and prints the ratio.",
     .example = "antiphon bench train --layers 462,5x2048,10217 --minibatch 256 --precision bf16 --json"});

}  // namespace
}  // namespace antiphon::app
