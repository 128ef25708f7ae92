// Exported models give ONNX Runtime the outputs that they have here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/score_source.h"
#include "infer/onnx/onnx_export.h"
#include "infer/onnx/onnx_graph.h"
#include "kernels/softmax.h"
#include "oracle.h"
#include "temporary_folder.h"

namespace antiphon::infer {
namespace {

constexpr int kInputDim = 12;

Matrix Random(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(rng.Normal());
  return m;
}

void Calibrate(nn::Network& network, const Matrix& x) {
  for (nn::Parameter* p : network.buffers()) {
    if (p->name.ends_with("input_scale")) p->value(0, 0) = 0.03F;
    if (p->name.ends_with("input_zero")) p->value(0, 0) = 120;
    if (p->name.ends_with("mask")) {
      for (int64_t i = 0; i < p->value.size(); i += 3) p->value.data()[i] = 0;
    }
    if (p->name.ends_with("offset") || p->name.ends_with("scale")) {
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = 0.5F + 0.1F * static_cast<float>(i % 7);
    }
    p->MarkChanged();
  }
  for (nn::Parameter* p : network.parameters()) {  // which begin as the identity
    if (!p->name.ends_with(".r") && p->name.find("frame-affine") == std::string::npos) continue;
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.1F * static_cast<float>(i % 7);
    p->MarkChanged();
  }
  network.MarkChanged();
  nn::Workspace ws;
  bool first = true;
  network.RecomputeStatistics(
      {}, [&] { return std::exchange(first, false) ? nn::NetworkInput{x} : nn::NetworkInput{}; }, ws);
}

nn::Model MakeModel(const std::string& layers, int context = 0, int heads = 1) {
  nn::Model model;
  const int in = kInputDim * (2 * context + 1);
  model.network = nn::Network(Config::Parse("layer = [" + layers + "]", "net"), in, 0, 3);
  Calibrate(model.network, Random(50, in, 9));
  model.feature_dim = kInputDim;
  model.left_context = model.right_context = context;
  model.frames_per_forward = heads;
  model.log_priors.assign(static_cast<size_t>(model.num_pdfs()), 0);
  for (size_t i = 0; i < model.log_priors.size(); ++i) {
    model.log_priors[i] = static_cast<float>(-std::log(1.5 * static_cast<double>(model.log_priors.size()))) -
                          0.1F * static_cast<float>(i % 5);
  }
  return model;
}

struct Job {
  std::string name;
  Matrix x;
  Matrix expected;
};

// ONNX Runtime's outputs of all jobs, whose files are NAME.onnx in the folder; one Python for all, as it starts slowly.
std::vector<Matrix> RunOnnx(const std::vector<Job>& jobs, const testing::TemporaryFolder& folder) {
  std::string list;
  for (const Job& job : jobs) {
    list += fmt::format("{} {}\n", job.name, job.x.cols());
    WriteFileAtomically(folder / (job.name + ".x"), {reinterpret_cast<const char*>(job.x.data()),
                                                     sizeof(float) * static_cast<size_t>(job.x.size())});
  }
  WriteFileAtomically(folder / "jobs", list);
  const char* const script = R"(import sys, numpy, onnxruntime
for line in open(sys.argv[1] + '/jobs'):
    name, dim = line.split()
    base = sys.argv[1] + '/' + name
    session = onnxruntime.InferenceSession(base + '.onnx')
    x = numpy.fromfile(base + '.x', dtype='float32').reshape(-1, int(dim))
    session.run(['y'], {'x': x})[0].tofile(base + '.y')
)";
  if (!RunPython(*OraclePython("onnxruntime"), script, "'" + (folder / "").string() + "'")) {
    throw InputError("ONNX Runtime refuses a file");
  }
  std::vector<Matrix> outputs;
  for (const Job& job : jobs) {
    const std::string bytes = ReadFile(folder / (job.name + ".y"));
    Matrix y(job.expected.rows(), job.expected.cols());
    if (bytes.size() != sizeof(float) * static_cast<size_t>(y.size())) throw InputError(job.name + ": another shape");
    std::memcpy(y.data(), bytes.data(), bytes.size());
    outputs.push_back(std::move(y));
  }
  return outputs;
}

// As the scorer does it, spliced here.
Matrix Expected(const nn::Model& model, const Matrix& x, double prior_scale) {
  nn::Workspace ws;
  Matrix y(ConstMatrixView(model.network.Forward({}, x, ws)));
  const MatrixView heads(y.data(), y.rows() * model.frames_per_forward, model.num_pdfs());
  Softmax(true, heads, heads);
  for (int64_t r = 0; r < heads.rows(); ++r) {
    for (int64_t k = 0; k < heads.cols(); ++k) {
      const float prior = model.log_priors[static_cast<size_t>(k)];
      heads(r, k) =
          prior_scale > 0 && !WasSeen(prior) ? kDisabledScore : heads(r, k) - static_cast<float>(prior_scale) * prior;
    }
  }
  return y;
}

// Before and behind repeats of the first and the last frame.
Matrix Padded(const Matrix& frames, int before, int behind) {
  Matrix out(before + frames.rows() + behind, frames.cols());
  for (int64_t t = 0; t < out.rows(); ++t) {
    const auto from = frames.view().Row(std::clamp<int64_t>(t - before, 0, frames.rows() - 1));
    std::copy(from.begin(), from.end(), out.Row(t).data());
  }
  return out;
}

Matrix Spliced(const Matrix& frames, int context) {
  const Matrix padded = Padded(frames, context, context);
  Matrix out(frames.rows(), frames.cols() * (2 * context + 1));
  for (int64_t t = 0; t < frames.rows(); ++t) {
    for (int64_t k = 0; k <= 2 * context; ++k) {
      const auto from = padded.view().Row(t + k);
      std::copy(from.begin(), from.end(), out.Row(t).data() + k * frames.cols());
    }
  }
  return out;
}

void ExpectNear(const Matrix& found, const Matrix& expected, const std::string& what) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.cols(), expected.cols());
  double largest = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(found.data()[i] - expected.data()[i])));
  }
  EXPECT_LT(largest, 1e-4) << what;
}

// A new form adds a network with its layer here.
const std::map<std::string, std::string>& Samples() {
  static const std::map<std::string, std::string> samples = {
      {"affine", "{type='affine',dim=10}"},
      {"linear", "{type='linear',dim=5},{type='affine',dim=10}"},
      {"fixed-affine", "{type='fixed-affine',dim=9},{type='affine',dim=10}"},
      {"sparse-affine",
       "{type='sparse-affine',dim=16,block-rows=4,block-cols=2},{type='sparse-affine',dim=8,weight-bits=8,input-bits="
       "8}"},
      {"circulant-affine", "{type='circulant-affine',dim=10,block=4},{type='relu'},{type='affine',dim=6}"},
      {"quantized-affine",
       "{type='quantized-affine',dim=10},{type='quantized-affine',dim=7,weight-bits=4,input-bits=0}"},
      {"binary-affine",
       "{type='binary-affine',dim=10},{type='batch-norm'},{type='binary-affine',dim=7,binary-input=true}"},
      {"inverse-cosine", "{type='inverse-cosine',cepstra=8},{type='affine',dim=10}"},
      {"frame-affine", "{type='frame-affine',dim=4},{type='affine',dim=10}"},
      {"lhuc", "{type='affine',dim=9},{type='lhuc'},{type='affine',dim=10}"},
      {"splice", "{type='splice',offsets=[-3,0,1],stride=2},{type='splice',offsets=[2,5]},{type='affine',dim=10}"},
      {"residual",
       "{type='affine',dim=9},{type='residual',scale=0.66,layers=[{type='splice',offsets=[-2,0]},"
       "{type='residual',scale=-0.5,layers=[{type='splice',offsets=[0,1],stride=3},{type='affine',dim=18},"
       "{type='relu'}]},{type='affine',dim=9}]},{type='affine',dim=10}"},
      {"ensemble",
       "{type='affine',dim=9},{type='ensemble',members=[{layers=[{type='splice',offsets=[-1,0],stride=2},"
       "{type='affine',dim=10},{type='sigmoid'}]},{layers=[{type='splice',offsets=[0,3],stride=2},{type='affine',"
       "dim=10}],weight=0.4}]}"},
      {"convolution",
       "{type='convolution',channels=2,channels-first=true,filters=3,offsets=[-1,0,2]},{type='relu'},"
       "{type='convolution',channels=3,filters=4,stride=2,window=4},"
       "{type='convolution',channels=4,filters=2,pad=false,window=2},{type='affine',dim=10}"},
      {"pooling",
       "{type='pooling',channels=2,window=4,stride=3},{type='pooling',channels=2,window=2,function='average'},{type="
       "'affine',dim=10}"},
      {"normalize", "{type='normalize'},{type='affine',dim=10}"},
      {"batch-norm", "{type='affine',dim=8},{type='batch-norm',target-rms=0.5},{type='affine',dim=10}"},
      {"renorm", "{type='renorm',target-rms=0.5},{type='affine',dim=10}"},
      {"p-norm", "{type='p-norm',dim=4},{type='affine',dim=10}"},
      {"relu", "{type='affine',dim=9},{type='relu'},{type='affine',dim=10}"},
      {"sigmoid", "{type='affine',dim=9},{type='sigmoid'},{type='affine',dim=10}"},
      {"tanh", "{type='affine',dim=9},{type='tanh'},{type='affine',dim=10}"},
      {"softmax", "{type='softmax'},{type='affine',dim=10}"},
      {"log-softmax", "{type='log-softmax'},{type='affine',dim=10}"},
      {"dropout", "{type='affine',dim=9},{type='dropout',proportion=0.3},{type='affine',dim=10}"},
      {"spec-mask", "{type='spec-mask'},{type='affine',dim=10}"}};
  return samples;
}

TEST(Onnx, HasASampleOfEveryForm) {
  for (const auto& [type, form] : OnnxForms()) EXPECT_TRUE(Samples().contains(type)) << type;
}

void ExpectAsHere(const std::vector<Job>& jobs, const testing::TemporaryFolder& folder) {
  const std::vector<Matrix> found = RunOnnx(jobs, folder);
  for (size_t i = 0; i < jobs.size(); ++i) ExpectNear(found[i], jobs[i].expected, jobs[i].name);
}

TEST(Onnx, EveryLayerScoresAsHere) {
  if (!OraclePython("onnxruntime")) GTEST_SKIP() << "no Python with onnxruntime";
  const testing::TemporaryFolder folder;
  std::vector<Job> jobs;
  for (const auto& [type, layers] : Samples()) {
    const nn::Model model = MakeModel(layers);
    ExportOnnx(model, {}, folder / (type + ".onnx"));
    const Matrix x = Random(23, kInputDim, 5);
    jobs.push_back({type, x, Expected(model, x, 0)});
  }
  ExpectAsHere(jobs, folder);
}

TEST(Onnx, SplicesTheFramesOfAnUtteranceAndTakesPriorsOut) {
  if (!OraclePython("onnxruntime")) GTEST_SKIP() << "no Python with onnxruntime";
  const testing::TemporaryFolder folder;
  nn::Model model = MakeModel(
      "{type='normalize'},{type='affine',dim=20},{type='relu'},{type='batch-norm'},{type='affine',dim=24}", 2, 3);
  model.log_priors[2] = -std::numeric_limits<float>::infinity();  // never seen in training
  model.log_priors[5] = -40;
  std::vector<Job> jobs;
  for (const int frames : {1, 2, 30}) {
    const Matrix x = Random(frames, kInputDim, 5);
    for (const std::string input : {"frames", "spliced"}) {
      const std::string name = fmt::format("{}{}", input, frames);
      ExportOnnx(model, {.input = input, .log_softmax = true, .prior_scale = 1}, folder / (name + ".onnx"));
      jobs.push_back({name, input == "frames" ? x : Spliced(x, 2), Expected(model, Spliced(x, 2), 1)});
    }
  }
  ExpectAsHere(jobs, folder);
}

// As chain models have it: factorised layers, outputs for every third frame.
TEST(Onnx, TakesTheContextOfLayersFromTheFramesOfAnUtterance) {
  if (!OraclePython("onnxruntime")) GTEST_SKIP() << "no Python with onnxruntime";
  const testing::TemporaryFolder folder;
  const nn::Model model = MakeModel(
      "{type='inverse-cosine',cepstra=12},{type='spec-mask'},{type='tdnn',dim=16,offsets=[-1,0,1]},{type='relu'},"
      "{type='batch-norm'},{type='tdnn-f',dim=16,bottleneck=4,dropout=0.2},"
      "{type='tdnn-f',dim=16,bottleneck=4,stride=3},"
      "{type='tdnn-f',dim=16,bottleneck=4,time-stride=0},{type='tdnn-f',dim=16,bottleneck=4},{type='prefinal',dim=16,"
      "bottleneck=8},{type='affine',dim=14}");
  ASSERT_EQ(model.network.time_context().stride, 3);
  ExportOnnx(model, {.input = "frames"}, folder / "once.onnx");
  std::vector<Job> jobs;
  for (const int frames : {1, 2, 3, 4, 31}) {
    const std::string name = fmt::format("frames{}", frames);
    std::filesystem::copy_file(folder / "once.onnx", folder / (name + ".onnx"));
    const Matrix x = Random(frames, kInputDim, 5);
    const TimeContext context = model.network.time_context();
    jobs.push_back({name, x, Expected(model, Padded(x, context.left, context.right + context.stride - 1), 0)});
    EXPECT_EQ(jobs.back().expected.rows(), (frames + 2) / 3);
  }
  ExpectAsHere(jobs, folder);
}

// Beyond the ends layers see the first and the last window again, as in training and in the scorer.
TEST(Onnx, RepeatsTheWindowsAtTheEndsOfAnUtterance) {
  if (!OraclePython("onnxruntime")) GTEST_SKIP() << "no Python with onnxruntime";
  const testing::TemporaryFolder folder;
  const nn::Model model = MakeModel(
      "{type='tdnn',dim=16,offsets=[-1,0,2]},{type='relu'},{type='tdnn-f',dim=16,bottleneck=4,stride=3},"
      "{type='affine',dim=14}",
      2);
  const TimeContext context = model.network.time_context();
  std::vector<Job> jobs;
  for (const int frames : {1, 2, 4, 31}) {
    const Matrix x = Random(frames, kInputDim, 5);
    const Matrix rows = Padded(Spliced(x, 2), context.left, context.right + context.stride - 1);
    for (const std::string input : {"frames", "spliced"}) {
      const std::string name = fmt::format("{}{}", input, frames);
      ExportOnnx(model, {.input = input}, folder / (name + ".onnx"));
      jobs.push_back({name, input == "frames" ? x : rows, Expected(model, rows, 0)});
      EXPECT_EQ(jobs.back().expected.rows(), (frames + 2) / 3);
    }
  }
  ExpectAsHere(jobs, folder);
}

TEST(Onnx, LeavesTheModelAsItWas) {
  const testing::TemporaryFolder folder;
  const nn::Model model = MakeModel(Samples().at("quantized-affine"));
  const uint64_t hash = model.network.Hash();
  const Matrix x = Random(4, kInputDim, 5);
  const Matrix before = Expected(model, x, 0);
  ExportOnnx(model, {}, folder / "m.onnx");
  EXPECT_EQ(model.network.Hash(), hash);
  ExpectNear(Expected(model, x, 0), before, "");
}

TEST(Onnx, RefusesWhatItCannotSay) {
  const testing::TemporaryFolder folder;
  nn::Model model = MakeModel(Samples().at("affine"));
  model.log_priors.clear();
  EXPECT_THROW(ExportOnnx(model, {.input = "spliced", .log_softmax = true, .prior_scale = 1}, folder / "m.onnx"),
               InputError);
  const nn::Model recurrent = MakeModel("{type='lstm',dim=4},{type='affine',dim=10}");
  EXPECT_THROW(ExportOnnx(recurrent, {}, folder / "m.onnx"), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

}  // namespace
}  // namespace antiphon::infer
