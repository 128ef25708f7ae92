#include "infer/plan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/random.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

// Not inlined, the pair looks unlike to gcc.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace antiphon::infer {
namespace {

nn::Network NetworkOf(const std::string& layers, int in_dim = 37) {
  nn::Network network(Config::Parse(layers, "net.toml"), in_dim, 0, 5);
  Rng rng(8);
  for (nn::Parameter* p : network.parameters()) {
    if (p->name.ends_with("bias")) {
      for (float& b : p->value.Row(0)) b = static_cast<float>(0.1 * rng.Normal());
    }
  }
  return network;
}

std::string Layers(const std::string& activation = "sigmoid") {
  const std::string f = "[[layer]]\ntype='" + activation + "'\n";
  return "[[layer]]\ntype='affine'\ndim=130\n" + f + "[[layer]]\ntype='affine'\ndim=65\n" + f +
         "[[layer]]\ntype='affine'\ndim=101\n";
}

Matrix RandomInput(int rows, int dim = 37) {
  Matrix x(rows, dim);
  Rng rng(6);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  return x;
}

Matrix RunPlan(const Plan& plan, ConstMatrixView x, int batch) {
  PlanMemory memory(plan, batch);
  Matrix y(x.rows(), plan.out_dim());
  for (int64_t first = 0; first < x.rows(); first += batch) {
    const int64_t count = std::min<int64_t>(batch, x.rows() - first);
    for (int64_t r = 0; r < count; ++r) {
      const auto row = x.Row(first + r);
      std::copy(row.begin(), row.end(), memory.input().Row(r).begin());
    }
    plan.Run(static_cast<int>(count), memory, y.view().Rows(first, count));
  }
  return y;
}

Matrix Train(const nn::Network& network, ConstMatrixView x) {
  nn::Workspace ws;
  return Matrix(ConstMatrixView(network.Forward({}, x, ws)));
}

double LargestDifference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a.data()[i]) - b.data()[i]));
  }
  return largest;
}

bool SameBits(const Matrix& a, const Matrix& b) {
  return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

TEST(Plan, ComputesWhatTheNetworkDoes) {
  const Matrix x = RandomInput(29);
  for (const char* activation : {"sigmoid", "relu", "tanh"}) {
    const nn::Network network = NetworkOf(Layers(activation));
    const Matrix expected = Train(network, x);
    const auto error = [&](DataType type) { return LargestDifference(RunPlan(Plan(network, {type}), x, 8), expected); };
    EXPECT_LT(error(DataType::kFloat32), 2e-5) << activation;
    EXPECT_LT(error(DataType::kBf16), 0.05) << activation;
    EXPECT_LT(error(DataType::kInt8), 0.08) << activation;
    EXPECT_GT(error(DataType::kInt8), 1e-5) << activation;  // that is, int8 was really used
  }
}

TEST(Plan, RunsEveryKindOfLayer) {
  const nn::Network network = NetworkOf(
      "[[layer]]\ntype='normalize'\n[[layer]]\ntype='fixed-affine'\n[[layer]]\ntype='linear'\ndim=24\n"
      "[[layer]]\ntype='affine'\ndim=40\n[[layer]]\ntype='relu'\n[[layer]]\ntype='batch-norm'\n"
      "[[layer]]\ntype='dropout'\nproportion=0.3\n[[layer]]\ntype='affine'\ndim=30\n[[layer]]\ntype='renorm'\n"
      "[[layer]]\ntype='sigmoid'\n[[layer]]\ntype='affine'\ndim=12\n[[layer]]\ntype='log-softmax'\n");
  const Matrix x = RandomInput(11);
  const Plan plan(network, {DataType::kFloat32});
  EXPECT_LT(LargestDifference(RunPlan(plan, x, 4), Train(network, x)), 2e-5);
  EXPECT_TRUE(plan.needs_network());
}

constexpr const char* kEnsemble =
    "[[layer]]\ntype='affine'\ndim=20\n[[layer]]\ntype='ensemble'\nmembers=[{layers=[{type='affine', dim=24}, "
    "{type='relu'}, {type='affine', dim=101}]}, {layers=[{type='affine', dim=101}, {type='tanh'}], weight=0.5}]\n";

// What goes by streams goes without several frames at once, lazy outputs and frames that are left out.
TEST(Plan, GoesByStreamsOnlyWhereAMemberDoes) {
  const nn::Network network = NetworkOf(kEnsemble);
  const Plan plan(network, {DataType::kFloat32});
  EXPECT_FALSE(plan.sequential());
  const Matrix x = RandomInput(13);
  EXPECT_LT(LargestDifference(RunPlan(plan, x, 5), Train(network, x)), 2e-5);
  EXPECT_LT(LargestDifference(RunPlan(Plan(network, {DataType::kInt8}), x, 5), Train(network, x)), 0.2);
  const nn::Network spliced = NetworkOf(
      "[[layer]]\ntype='ensemble'\nmembers=[{layers=[{type='affine', dim=9}]}, {layers=[{type='splice'}, "
      "{type='affine', dim=9}]}]\n");
  EXPECT_TRUE(Plan(spliced, {DataType::kFloat32}).sequential());
}

void ExpectSameBitsWhateverTheBatch(const nn::Network& network) {
  const Matrix x = RandomInput(50);
  for (const DataType type : {DataType::kFloat32, DataType::kBf16, DataType::kInt8}) {
    const Plan plan(network, {type});
    const Matrix whole = RunPlan(plan, x, 50);
    for (const int batch : {1, 2, 7, 13, 49}) EXPECT_TRUE(SameBits(RunPlan(plan, x, batch), whole)) << batch;
  }
}

TEST(Plan, GivesTheSameBitsWhateverTheBatch) {
  for (const std::string& layers : {Layers(), std::string(kEnsemble)}) {
    SCOPED_TRACE(layers);
    ExpectSameBitsWhateverTheBatch(NetworkOf(layers));
  }
}

TEST(Plan, RefusesAChainThatDoesNothing) {
  const nn::Network network = NetworkOf(
      "[[layer]]\ntype='ensemble'\nmembers=[{layers=[{type='dropout'}]}, {layers=[{type='affine', dim=37}]}]\n");
  try {
    Plan(network, {DataType::kFloat32});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("'dropout'"), std::string::npos) << e.what();
  }
}

TEST(Plan, GivesTheSameBitsOnEveryInstructionSetIn8Bits) {
  for (const std::string activation : {"sigmoid", "relu", "tanh"}) {
    const nn::Network network = NetworkOf(Layers(activation));
    const Matrix x = RandomInput(9);
    const Matrix expected = RunPlan(Plan(network, {DataType::kInt8, Isa::kPortable}), x, 9);
    for (const Isa isa : SupportedIsas()) {
      EXPECT_TRUE(SameBits(RunPlan(Plan(network, {DataType::kInt8, isa}), x, 9), expected)) << IsaName(isa);
      EXPECT_LT(LargestDifference(RunPlan(Plan(network, {DataType::kFloat32, isa}), x, 9), Train(network, x)), 2e-5);
    }
  }
}

TEST(Plan, AllocatesNothingAfterTheStart) {
  const nn::Network network = NetworkOf(Layers() + kEnsemble);
  for (const DataType type : {DataType::kFloat32, DataType::kBf16, DataType::kInt8}) {
    const Plan plan(network, {type});
    PlanMemory memory(plan, 16);
    Matrix out(16, plan.out_dim());
    plan.Run(16, memory, out);
    const int64_t before = allocations;
    for (int i = 0; i < 10; ++i) plan.Run(16, memory, out);
    EXPECT_EQ(allocations, before);
  }
}

TEST(Plan, TakesNoFramesAndRefusesWhatIsNotFinite) {
  const nn::Network network = NetworkOf(Layers());
  const Plan plan(network, {DataType::kInt8});
  PlanMemory memory(plan, 3);
  plan.Run(0, memory, Matrix(0, plan.out_dim()));
  Matrix out(3, plan.out_dim());
  for (const float bad : {NAN, INFINITY}) {
    std::fill_n(memory.input().data(), 37, 0.0F);
    memory.input()(1, 5) = bad;
    EXPECT_THROW(plan.Run(3, memory, out), InputError);
  }
  memory.input()(1, 5) = 0;
  plan.Run(3, memory, out);  // silence
  for (int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isfinite(out.data()[i]));
}

}  // namespace
}  // namespace antiphon::infer
