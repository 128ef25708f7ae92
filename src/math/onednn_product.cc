#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/isa.h"
#include "math/gemm.h"
#include "math/matrix.h"
#include "math/product.h"
#include "math/product_library.h"

namespace antiphon {
namespace {

// oneDNN 3.7 takes the elements of a single row or column for neighbours, whatever their stride says.
constexpr bool kVectorsMustBeDense = DNNL_VERSION_MAJOR >= 3;

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

// Nothing above what the process may use.
void LimitInstructionSet() {
#if defined(__x86_64__)
  const auto limit = [](dnnl::cpu_isa isa) { dnnl::set_max_cpu_isa(isa); };
  if (!IsWithin(Isa::kAvx2)) return limit(dnnl::cpu_isa::sse41);
  if (!IsWithin(Isa::kAvx512)) return limit(dnnl::cpu_isa::avx2);
  if (!IsWithin(Isa::kAvx512Vnni)) return limit(dnnl::cpu_isa::avx512_core);
  if (!IsWithin(Isa::kAvx512Bf16)) return limit(dnnl::cpu_isa::avx512_core_vnni);
#endif
}

dnnl::engine& Engine() {
  static dnnl::engine engine = [] {
    LimitInstructionSet();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
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

struct Compiled {
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

std::unique_ptr<Compiled> Compile(const Key& key) {
  using Dims = dnnl::memory::dims;
  const auto type = key.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const auto f32 = dnnl::memory::data_type::f32;
  const dnnl::memory::desc a({key.m, key.k}, type, key.trans_a ? Dims{1, key.lda} : Dims{key.lda, 1});
  const dnnl::memory::desc b({key.k, key.n}, type, key.trans_b ? Dims{1, key.ldb} : Dims{key.ldb, 1});
  const dnnl::memory::desc c({key.m, key.n}, f32, Dims{key.ldc, 1});
  const dnnl::memory::desc bias({1, key.n}, f32, Dims{key.n, 1});
  const bool copies = key.bf16 && key.trans_a && CopiesTransposedFactors();
  const auto any = dnnl::memory::format_tag::any;
  const dnnl::memory::desc row({1, key.k}, type, Dims{key.k, 1}), column({key.k, 1}, type, Dims{1, key.k});
  const auto described =
      copies ? Describe({{key.m, key.k}, type, any}, {{key.k, key.n}, type, any}, bias, c, key.bias, Attributes(key))
             : Describe(kVectorsMustBeDense && key.m == 1 ? row : a, kVectorsMustBeDense && key.n == 1 ? column : b,
                        bias, c, key.bias, Attributes(key));
  auto product = std::make_unique<Compiled>();
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
  Compiled& Get(const Key& key) {
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
  std::map<Key, std::unique_ptr<Compiled>> products_;
  CopyRoom room_for_a_, room_for_b_;
  dnnl::stream stream_{Engine()};
};

// oneDNN computes with the OpenMP team that it finds: with one thread, in each of ours, and the program's own setting
// comes back.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

// A product in blocks that one thread computes each, cut by the shape alone: of about 512 rows and columns, larger ones
// where factors are copied; small products in four, as long as each is worth a thread's while, huge ones in eight.
struct Blocks {
  explicit Blocks(const MatrixProduct& p) : p_(p) {
    constexpr int64_t kWorthAThread = int64_t{1} << 24, kHuge = int64_t{1} << 31;
    const int64_t most = p.bf16 && p.trans_a && CopiesTransposedFactors() ? 2048 : 512;
    const int64_t fewest = p.operations() >= kHuge ? 8 : 4;
    down_ = (p.m + most - 1) / most;
    across_ = std::max<int64_t>(1, p.n / most);
    while (count() < fewest && p.operations() / (2 * count()) >= kWorthAThread) {
      (p.m / down_ >= p.n / across_ ? down_ : across_) *= 2;
    }
  }
  int64_t count() const { return down_ * across_; }
  /// The part of the product that computes a block.
  MatrixProduct At(int64_t index) const {
    const int64_t r = index / across_, c = index % across_;
    const int64_t row = p_.m * r / down_, col = p_.n * c / across_;
    const int64_t bytes = p_.bf16 ? 2 : 4;
    MatrixProduct part = p_;
    part.m = p_.m * (r + 1) / down_ - row;
    part.n = p_.n * (c + 1) / across_ - col;
    part.a = static_cast<const std::byte*>(p_.a) + row * (p_.trans_a ? 1 : p_.lda) * bytes;
    part.b = static_cast<const std::byte*>(p_.b) + col * (p_.trans_b ? p_.ldb : 1) * bytes;
    part.c = p_.c + row * p_.ldc + col;
    if (part.bias != nullptr) part.bias += col;
    return part;
  }

 private:
  const MatrixProduct& p_;
  int64_t down_, across_;
};

// The column that a product results in, its elements side by side while oneDNN computes.
class DenseColumn {
 public:
  explicit DenseColumn(const MatrixProduct& p) : p_(p) {
    Room().resize(static_cast<size_t>(p.m));
    if (p.accumulate == 0.0f) return;
    for (int64_t i = 0; i < p.m; ++i) Room()[static_cast<size_t>(i)] = p.c[i * p.ldc];
  }
  MatrixProduct Product() const {
    MatrixProduct dense = p_;
    dense.c = Room().data();
    dense.ldc = 1;
    return dense;
  }
  void CopyBack() const {
    for (int64_t i = 0; i < p_.m; ++i) p_.c[i * p_.ldc] = Room()[static_cast<size_t>(i)];
  }

 private:
  static std::vector<float>& Room() {
    thread_local std::vector<float> room;
    return room;
  }
  const MatrixProduct& p_;
};

void MultiplyBlock(const MatrixProduct& p) {
  if (kVectorsMustBeDense && p.n == 1 && p.ldc != 1) {
    const DenseColumn column(p);
    MultiplyBlock(column.Product());
    return column.CopyBack();
  }
  const OneOpenMpThread one;
  if (p.alpha != 1.0f) {
    CHECK(!p.bf16 && p.bias == nullptr && p.activation == Activation::kNone);
    const auto status =
        dnnl_sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha, static_cast<const float*>(p.a),
                   p.lda, static_cast<const float*>(p.b), p.ldb, p.accumulate, p.c, p.ldc);
    CHECK_EQ(status, dnnl_success);
    return;
  }
  const Key key{p.bf16,      p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.trans_a, p.trans_b, p.accumulate, p.bias != nullptr,
                p.activation};
  try {
    ProductCache& cache = ProductCache::OfThread();
    Compiled& compiled = cache.Get(key);
    compiled.a.Set(p.a, cache.room_for_a(), cache.stream());
    compiled.b.Set(p.b, cache.room_for_b(), cache.stream());
    compiled.c.set_data_handle(p.c);
    if (key.bias) compiled.bias.set_data_handle(const_cast<float*>(p.bias));
    compiled.primitive.execute(cache.stream(), compiled.arguments);
    cache.stream().wait();
  } catch (const dnnl::error& e) {
    Throw<Error>("a {} matrix product of [{}, {}] over {} failed in oneDNN: {}", p.bf16 ? "bf16" : "fp32", p.m, p.n,
                 p.k, e.what());
  }
}

}  // namespace

void MultiplyWithOneDnn(const MatrixProduct& product) {
  constexpr int64_t kOperationsWorthThreads = int64_t{1} << 19;
  const Blocks blocks(product);
  if (product.operations() < kOperationsWorthThreads) {
    for (int64_t b = 0; b < blocks.count(); ++b) MultiplyBlock(blocks.At(b));
    return;
  }
  ParallelPieces(blocks.count(), [&](int64_t b, int /*thread*/) { MultiplyBlock(blocks.At(b)); });
}

bool OneDnnMultipliesBf16() {
  static const bool has = [] {
    const OneOpenMpThread one;
    try {
      Compile({true, 8, 8, 8, 8, 8, 8, false, false, 0, false, Activation::kNone});
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

bool CopiesTransposedFactors() {
  static const bool copies = [] {
    if (LibraryFor(true).multiply != &MultiplyWithOneDnn) return false;
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
#if DNNL_VERSION_MAJOR >= 3
    if (isa == dnnl::cpu_isa::avx512_core_amx_fp16) return true;
#endif
    return isa == dnnl::cpu_isa::avx512_core_amx;
  }();
  return copies;
}

std::string OneDnnName() {
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
