#include "math/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "math/blas_threads.h"

namespace antiphon {
namespace {

// What a compiled product depends on. Matrices stay row-major: on AVX-512 plain strides run at the speed of blocked
// formats, so that nothing is reordered. Matrix registers (AMX) do not like to read the left factor transposed, as the
// gradients of weights do: copies in the library's own formats are worth their time there.
struct Key {
  bool bf16;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  bool trans_a, trans_b;
  float accumulate;
  bool bias;
  Activation activation;
  auto operator<=>(const Key&) const = default;
};

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Memory for a copy of a factor: one for all products of a thread, which take turns.
using CopyRoom = BasicMatrix<std::byte>;

// A factor, and its copy in another format if the product wants one.
struct Factor {
  dnnl::memory given, copy;
  dnnl::reorder reorder;
  bool copied = false;

  Factor() = default;
  Factor(const dnnl::memory::desc& as_given, const dnnl::memory::desc& wanted)
      : given(as_given, Engine(), nullptr), copied(as_given != wanted) {
    if (!copied) return;
    copy = dnnl::memory(wanted, Engine(), nullptr);
    reorder = dnnl::reorder(given, copy);
  }
  const dnnl::memory& used() const { return copied ? copy : given; }
  /// `room` holds the copy until the product is computed; it grows to what the largest one needs.
  void Set(const void* data, CopyRoom& room, dnnl::stream& stream) {
    given.set_data_handle(const_cast<void*>(data));
    if (!copied) return;
    room.Resize(1, static_cast<int64_t>(copy.get_desc().get_size()));
    copy.set_data_handle(room.data());
    reorder.execute(stream, given, copy);
  }
};

struct Product {
  dnnl::matmul primitive;
  Factor a, b;
  dnnl::memory c, bias, scratch;
  std::unordered_map<int, dnnl::memory> arguments;
};

dnnl::algorithm Algorithm(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return dnnl::algorithm::eltwise_relu;
    case Activation::kSigmoid:
      return dnnl::algorithm::eltwise_logistic;
    default:
      return dnnl::algorithm::eltwise_tanh;
  }
}

dnnl::primitive_attr Attributes(const Key& key) {
  dnnl::post_ops ops;
  if (key.accumulate != 0) ops.append_sum(key.accumulate);
#if DNNL_VERSION_MAJOR >= 3
  if (key.activation != Activation::kNone) ops.append_eltwise(Algorithm(key.activation), 0, 0);
#else
  if (key.activation != Activation::kNone) ops.append_eltwise(1, Algorithm(key.activation), 0, 0);
#endif
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::matmul::primitive_desc Describe(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                      const dnnl::memory::desc& bias, const dnnl::memory::desc& c, bool with_bias,
                                      const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return with_bias ? dnnl::matmul::primitive_desc(Engine(), a, b, bias, c, attributes)
                   : dnnl::matmul::primitive_desc(Engine(), a, b, c, attributes);
#else
  return with_bias ? dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, bias, c), attributes, Engine())
                   : dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, Engine());
#endif
}

std::unique_ptr<Product> Compile(const Key& key) {
  using Dims = dnnl::memory::dims;
  const auto type = key.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const auto f32 = dnnl::memory::data_type::f32;
  const dnnl::memory::desc a({key.m, key.k}, type, key.trans_a ? Dims{1, key.lda} : Dims{key.lda, 1});
  const dnnl::memory::desc b({key.k, key.n}, type, key.trans_b ? Dims{1, key.ldb} : Dims{key.ldb, 1});
  const dnnl::memory::desc c({key.m, key.n}, f32, Dims{key.ldc, 1});
  const dnnl::memory::desc bias({1, key.n}, f32, Dims{key.n, 1});
  const bool copies = key.bf16 && key.trans_a && CopiesTransposedFactors();
  const auto any = dnnl::memory::format_tag::any;
  const auto described =
      copies ? Describe({{key.m, key.k}, type, any}, {{key.k, key.n}, type, any}, bias, c, key.bias, Attributes(key))
             : Describe(a, b, bias, c, key.bias, Attributes(key));
  auto product = std::make_unique<Product>();
  product->primitive = dnnl::matmul(described);
  product->a = Factor(a, described.src_desc());
  product->b = Factor(b, described.weights_desc());
  product->c = dnnl::memory(c, Engine(), nullptr);
  product->scratch = dnnl::memory(described.scratchpad_desc(), Engine());
  product->arguments = {{DNNL_ARG_SRC, product->a.used()},
                        {DNNL_ARG_WEIGHTS, product->b.used()},
                        {DNNL_ARG_DST, product->c},
                        {DNNL_ARG_SCRATCHPAD, product->scratch}};
  if (key.bias) {
    product->bias = dnnl::memory(bias, Engine(), nullptr);
    product->arguments.insert({DNNL_ARG_BIAS, product->bias});
  }
  return product;
}

// One cache per thread: products hold scratch memory and the addresses of the call.
class ProductCache {
 public:
  Product& Get(const Key& key) {
    auto it = products_.find(key);
    if (it == products_.end()) {
      if (products_.size() >= kMaxProducts) products_.clear();
      it = products_.emplace(key, Compile(key)).first;
    }
    return *it->second;
  }
  dnnl::stream& stream() { return stream_; }
  CopyRoom& room_for_a() { return room_for_a_; }
  CopyRoom& room_for_b() { return room_for_b_; }

  static ProductCache& OfThread() {
    thread_local ProductCache cache;
    return cache;
  }

 private:
  static constexpr size_t kMaxProducts = 512;
  std::map<Key, std::unique_ptr<Product>> products_;
  CopyRoom room_for_a_, room_for_b_;
  dnnl::stream stream_{Engine()};
};

template <class T>
void CheckShapes(Transpose trans_a, BasicMatrixView<const T> a, Transpose trans_b, BasicMatrixView<const T> b,
                 int64_t rows, int64_t cols) {
  const int64_t m = trans_a == Transpose::kYes ? a.cols() : a.rows();
  const int64_t ka = trans_a == Transpose::kYes ? a.rows() : a.cols();
  const int64_t kb = trans_b == Transpose::kYes ? b.cols() : b.rows();
  const int64_t n = trans_b == Transpose::kYes ? b.rows() : b.cols();
  if (ka != kb || m != rows || n != cols) {
    Throw<ShapeError>("a product of [{}, {}]{} and [{}, {}]{} does not give [{}, {}]", a.rows(), a.cols(),
                      trans_a == Transpose::kYes ? " transposed" : "", b.rows(), b.cols(),
                      trans_b == Transpose::kYes ? " transposed" : "", rows, cols);
  }
}

// What is left of a product without inner dimension.
void FillEmptyProduct(MatrixView c, const GemmEpilogue& epilogue) {
  for (int64_t r = 0; r < c.rows(); ++r) {
    for (int64_t j = 0; j < c.cols(); ++j) {
      float v = epilogue.accumulate != 0 ? epilogue.accumulate * c(r, j) : 0.0f;
      if (epilogue.bias != nullptr) v += epilogue.bias[j];
      if (epilogue.activation == Activation::kRelu) v = v > 0 ? v : 0;
      if (epilogue.activation == Activation::kSigmoid) v = 1.0f / (1.0f + std::exp(-v));
      if (epilogue.activation == Activation::kTanh) v = std::tanh(v);
      c(r, j) = v;
    }
  }
}

template <class T>
void Run(Transpose trans_a, BasicMatrixView<const T> a, Transpose trans_b, BasicMatrixView<const T> b, MatrixView c,
         const GemmEpilogue& epilogue) {
  CheckShapes(trans_a, a, trans_b, b, c.rows(), c.cols());
  CHECK(epilogue.accumulate == 0 || (epilogue.bias == nullptr && epilogue.activation == Activation::kNone));
  const int64_t k = trans_a == Transpose::kYes ? a.rows() : a.cols();
  if (c.empty()) return;
  if (k == 0) return FillEmptyProduct(c, epilogue);
  const Key key{sizeof(T) == 2,
                c.rows(),
                c.cols(),
                k,
                a.stride(),
                b.stride(),
                c.stride(),
                trans_a == Transpose::kYes,
                trans_b == Transpose::kYes,
                epilogue.accumulate,
                epilogue.bias != nullptr,
                epilogue.activation};
  try {
    ProductCache& cache = ProductCache::OfThread();
    Product& product = cache.Get(key);
    product.a.Set(a.data(), cache.room_for_a(), cache.stream());
    product.b.Set(b.data(), cache.room_for_b(), cache.stream());
    product.c.set_data_handle(c.data());
    if (key.bias) product.bias.set_data_handle(const_cast<float*>(epilogue.bias));
    product.primitive.execute(cache.stream(), product.arguments);
    cache.stream().wait();
  } catch (const dnnl::error& e) {
    Throw<Error>("a {} matrix product of [{}, {}] over {} failed in oneDNN: {}", key.bf16 ? "bf16" : "fp32", key.m,
                 key.n, key.k, e.what());
  }
}

// bf16 products need AVX-512 in oneDNN 2.6.
bool HasBf16() {
  static const bool has = [] {
    try {
      Compile({true, 8, 8, 8, 8, 8, 8, false, false, 0, false, Activation::kNone});
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

Matrix Widen(ConstBf16View m) {
  Matrix wide;
  wide.Resize(m.rows(), m.cols());
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (int64_t c = 0; c < m.cols(); ++c) wide(r, c) = ToFloat(m(r, c));
  }
  return wide;
}

}  // namespace

Precision ParsePrecision(std::string_view name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  throw UsageError(UnknownNameMessage("precision", name, {"fp32", "bf16"}));
}

std::string_view PrecisionName(Precision precision) { return precision == Precision::kBf16 ? "bf16" : "fp32"; }

void Gemm(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, MatrixView c,
          const GemmEpilogue& epilogue) {
  Run<float>(trans_a, a, trans_b, b, c, epilogue);
}

void Gemm(Transpose trans_a, ConstBf16View a, Transpose trans_b, ConstBf16View b, MatrixView c,
          const GemmEpilogue& epilogue) {
  if (HasBf16()) return Run<Bf16>(trans_a, a, trans_b, b, c, epilogue);
  static std::once_flag warned;
  std::call_once(
      warned, [] { log::Warn("this CPU has no bf16 products: bf16 factors are widened, which is slower than fp32"); });
  Run<float>(trans_a, Widen(a), trans_b, Widen(b), c, epilogue);
}

void GemmScaled(Transpose trans_a, ConstMatrixView a, Transpose trans_b, ConstMatrixView b, float alpha, float beta,
                MatrixView c) {
  CheckShapes(trans_a, a, trans_b, b, c.rows(), c.cols());
  const int64_t k = trans_a == Transpose::kYes ? a.rows() : a.cols();
  if (c.empty()) return;
  if (alpha == 1.0f && (beta == 0.0f || beta == 1.0f))
    return Run<float>(trans_a, a, trans_b, b, c, {.accumulate = beta});
  if (k == 0) return FillEmptyProduct(c, {.accumulate = beta});
  const char ta = trans_a == Transpose::kYes ? 'T' : 'N';
  const char tb = trans_b == Transpose::kYes ? 'T' : 'N';
  const dnnl_status_t status = dnnl_sgemm(ta, tb, c.rows(), c.cols(), k, alpha, a.data(), a.stride(), b.data(),
                                          b.stride(), beta, c.data(), c.stride());
  CHECK_EQ(status, dnnl_success);
}

void GemmScaled(Transpose trans_a, BasicMatrixView<const double> a, Transpose trans_b, BasicMatrixView<const double> b,
                double alpha, double beta, BasicMatrixView<double> c) {
  CheckShapes(trans_a, a, trans_b, b, c.rows(), c.cols());
  const int64_t k = trans_a == Transpose::kYes ? a.rows() : a.cols();
  if (c.empty()) return;
  UseOneBlasThread();
  const auto ld = [](int64_t stride) { return static_cast<int>(std::max<int64_t>(stride, 1)); };
  cblas_dgemm(CblasRowMajor, trans_a == Transpose::kYes ? CblasTrans : CblasNoTrans,
              trans_b == Transpose::kYes ? CblasTrans : CblasNoTrans, static_cast<int>(c.rows()),
              static_cast<int>(c.cols()), static_cast<int>(k), alpha, a.data(), ld(a.stride()), b.data(),
              ld(b.stride()), beta, c.data(), ld(c.stride()));
}

bool CopiesTransposedFactors() {
  static const bool copies = [] {
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
#if DNNL_VERSION_MAJOR >= 3
    if (isa == dnnl::cpu_isa::avx512_core_amx_fp16) return true;
#endif
    return isa == dnnl::cpu_isa::avx512_core_amx;
  }();
  return copies;
}

std::string GemmBackend() {
  const auto* version = dnnl_version();
  const char* isa = "other";
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx2:
      isa = "avx2";
      break;
    case dnnl::cpu_isa::avx2_vnni:
      isa = "avx2_vnni";
      break;
    case dnnl::cpu_isa::avx512_core:
      isa = "avx512_core";
      break;
    case dnnl::cpu_isa::avx512_core_vnni:
      isa = "avx512_core_vnni";
      break;
    case dnnl::cpu_isa::avx512_core_bf16:
      isa = "avx512_core_bf16";
      break;
    case dnnl::cpu_isa::avx512_core_amx:
      isa = "avx512_core_amx";
      break;
    default:
      break;
  }
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch, isa);
}

}  // namespace antiphon
