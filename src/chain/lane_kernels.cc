#include "chain/lane_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "chain/lane_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace antiphon::chain::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, static_cast<size_t>(kLanes)>;
using Vec = hn::Vec<Tag>;
constexpr size_t kWidth = hn::MaxLanes(Tag());
constexpr size_t kVecs = static_cast<size_t>(kLanes) / kWidth;

// All lanes; written out, so that the parts stay in registers.
#define ANTIPHON_ALL_LANES _Pragma("GCC unroll 16") for (size_t v = 0; v < kVecs; ++v)

HWY_INLINE Vec At(const float* rows, int32_t row, size_t v) {
  return hn::Load(Tag(), rows + static_cast<size_t>(row) * kLanes + v * kWidth);
}
HWY_INLINE void Put(Vec value, float* rows, int32_t row, size_t v) {
  hn::Store(value, Tag(), rows + static_cast<size_t>(row) * kLanes + v * kWidth);
}

// Σ factor · row over arcs, even and odd ones apart: two sums under way hide how long an addition takes.
HWY_INLINE void WeightedSum(const int32_t* rows, const float* factors, int32_t begin, int32_t end, const float* values,
                            Vec* sum) {
  const Tag d;
  Vec odd[kVecs];
  ANTIPHON_ALL_LANES { sum[v] = odd[v] = hn::Zero(d); }
  int32_t a = begin;
  for (; a + 2 <= end; a += 2) {
    const Vec f0 = hn::Set(d, factors[a]);
    const Vec f1 = hn::Set(d, factors[a + 1]);
    ANTIPHON_ALL_LANES {
      sum[v] = hn::Add(sum[v], hn::Mul(f0, At(values, rows[a], v)));
      odd[v] = hn::Add(odd[v], hn::Mul(f1, At(values, rows[a + 1], v)));
    }
  }
  if (a < end) {
    const Vec f = hn::Set(d, factors[a]);
    ANTIPHON_ALL_LANES { sum[v] = hn::Add(sum[v], hn::Mul(f, At(values, rows[a], v))); }
  }
  ANTIPHON_ALL_LANES { sum[v] = hn::Add(sum[v], odd[v]); }
}

// exp within ±88, by Cephes' polynomial, without fused products.
HWY_INLINE Vec Exp(Vec x) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  const Vec nf = hn::ConvertTo(d, n);
  Vec r = hn::Sub(x, hn::Mul(nf, hn::Set(d, 0.693359375f)));
  r = hn::Sub(r, hn::Mul(nf, hn::Set(d, -2.12194440e-4f)));
  Vec p = hn::Set(d, 1.9875691500e-4f);
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = hn::Add(hn::Mul(p, r), hn::Set(d, c));
  }
  p = hn::Add(hn::Add(hn::Mul(hn::Mul(p, r), r), r), hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127)))));
}

void ExpOfRowsImpl(const float* const* rows, int64_t cols, float limit, float* out) {
  const Tag d;
  HWY_ALIGN float tile[kLanes * kLanes];
  for (int64_t first = 0; first < cols; first += kLanes) {
    const auto width = static_cast<size_t>(std::min<int64_t>(kLanes, cols - first));
    for (size_t lane = 0; lane < kLanes; ++lane) {
      for (size_t c = 0; c < width; ++c)
        tile[c * kLanes + lane] = rows[lane] == nullptr ? 0.0f : rows[lane][static_cast<size_t>(first) + c];
    }
    for (size_t c = 0; c < width; ++c) {
      ANTIPHON_ALL_LANES {
        const Vec x = At(tile, static_cast<int32_t>(c), v);
        const Vec limited = hn::Max(hn::Min(x, hn::Set(d, limit)), hn::Set(d, -limit));
        Put(Exp(limited), out, static_cast<int32_t>(first) + static_cast<int32_t>(c), v);
      }
    }
  }
}

void ForwardFrameImpl(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha, float* next,
                      float* total) {
  const Tag d;
  Vec all[kVecs], sum[kVecs];
  ANTIPHON_ALL_LANES { all[v] = hn::Zero(d); }
  for (int32_t s = 0; s < graph.num_states; ++s) {
    Vec here[kVecs];
    const int32_t loop_pdf = graph.loop_pdf[static_cast<size_t>(s)];
    ANTIPHON_ALL_LANES {
      here[v] = loop_pdf < 0 ? hn::Zero(d) : hn::Mul(At(likelihoods, loop_pdf, v), At(alpha, s, v));
    }
    for (int32_t g = graph.first_group[static_cast<size_t>(s)]; g < graph.first_group[static_cast<size_t>(s) + 1];
         ++g) {
      WeightedSum(graph.arc_from.data(), graph.arc_probability.data(), graph.first_arc[static_cast<size_t>(g)],
                  graph.first_arc[static_cast<size_t>(g) + 1], alpha, sum);
      const int32_t pdf = graph.group_pdf[static_cast<size_t>(g)];
      ANTIPHON_ALL_LANES { here[v] = hn::Add(here[v], hn::Mul(sum[v], At(likelihoods, pdf, v))); }
    }
    ANTIPHON_ALL_LANES {
      Put(here[v], next, s, v);
      all[v] = hn::Add(all[v], here[v]);
    }
  }
  ANTIPHON_ALL_LANES {
    Put(all[v], total, 0, v);
    all[v] = hn::Div(hn::Set(d, 1.0f), all[v]);
  }
  for (int32_t s = 0; s < graph.num_states; ++s) {
    const Vec leaked = hn::Set(d, leak * graph.initial[static_cast<size_t>(s)]);
    ANTIPHON_ALL_LANES { Put(hn::Add(hn::Mul(At(next, s, v), all[v]), leaked), next, s, v); }
  }
}

void BackwardFrameImpl(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha,
                       const float* inverse, const float* active, float* behind, float* gamma, float* weights,
                       float* here) {
  const Tag d;
  Vec sum[kVecs], scale[kVecs], leaked[kVecs];
  ANTIPHON_ALL_LANES {
    scale[v] = At(inverse, 0, v);
    leaked[v] = hn::Zero(d);
  }
  std::memset(gamma, 0, sizeof(float) * static_cast<size_t>(graph.num_pdfs) * kLanes);
  for (int32_t g = 0; g < graph.num_groups(); ++g) {
    const int32_t pdf = graph.group_pdf[static_cast<size_t>(g)];
    const int32_t to = graph.group_to[static_cast<size_t>(g)];
    WeightedSum(graph.arc_from.data(), graph.arc_probability.data(), graph.first_arc[static_cast<size_t>(g)],
                graph.first_arc[static_cast<size_t>(g) + 1], alpha, sum);
    ANTIPHON_ALL_LANES {
      const Vec worth = hn::Mul(hn::Mul(At(likelihoods, pdf, v), scale[v]), At(behind, to, v));
      Put(worth, weights, g, v);
      Put(hn::Add(At(gamma, pdf, v), hn::Mul(sum[v], worth)), gamma, pdf, v);
    }
  }
  for (int32_t s = 0; s < graph.num_states; ++s) {
    WeightedSum(graph.leaving_group.data(), graph.leaving_probability.data(),
                graph.first_leaving[static_cast<size_t>(s)], graph.first_leaving[static_cast<size_t>(s) + 1], weights,
                sum);
    const int32_t loop_pdf = graph.loop_pdf[static_cast<size_t>(s)];
    if (loop_pdf >= 0) {
      ANTIPHON_ALL_LANES {
        const Vec worth = hn::Mul(hn::Mul(At(likelihoods, loop_pdf, v), scale[v]), At(behind, s, v));
        Put(hn::Add(At(gamma, loop_pdf, v), hn::Mul(At(alpha, s, v), worth)), gamma, loop_pdf, v);
        sum[v] = hn::Add(sum[v], worth);
      }
    }
    const Vec initial = hn::Set(d, graph.initial[static_cast<size_t>(s)]);
    ANTIPHON_ALL_LANES {
      Put(sum[v], here, s, v);
      leaked[v] = hn::Add(leaked[v], hn::Mul(initial, sum[v]));
    }
  }
  ANTIPHON_ALL_LANES { leaked[v] = hn::Mul(leaked[v], hn::Set(d, leak)); }
  const Vec one = hn::Set(d, 1.0f);
  for (int32_t s = 0; s < graph.num_states; ++s) {
    ANTIPHON_ALL_LANES {
      const auto on = hn::Gt(At(active, 0, v), hn::Zero(d));
      Put(hn::IfThenElse(on, hn::Add(At(here, s, v), leaked[v]), one), behind, s, v);
    }
  }
}

double SumInOrder(const Vec* parts) {
  HWY_ALIGN float values[kLanes];
  ANTIPHON_ALL_LANES { Put(parts[v], values, 0, v); }
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum;
}

void FinishRowsImpl(const float* gamma, int64_t cols, float l2, float out_of_range, float limit, OutputRows* rows) {
  const Tag d;
  HWY_ALIGN float tile[kLanes];
  HWY_ALIGN float part[kLanes];
  const Vec most = hn::Set(d, limit), least = hn::Set(d, -limit);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const float* y = rows->outputs[lane];
    float* out = rows->derivatives[lane];
    if (y == nullptr) continue;
    const Vec scale = hn::Set(d, rows->scale[lane]);
    Vec squares[kVecs], excesses[kVecs];
    ANTIPHON_ALL_LANES { squares[v] = excesses[v] = hn::Zero(d); }
    for (int64_t first = 0; first < cols; first += kLanes) {
      const auto width = static_cast<size_t>(std::min<int64_t>(kLanes, cols - first));
      for (size_t c = 0; c < width; ++c) {
        tile[c] = gamma == nullptr ? 0.0f : gamma[(static_cast<size_t>(first) + c) * kLanes + lane];
        part[c] = y[static_cast<size_t>(first) + c];
      }
      for (size_t c = width; c < kLanes; ++c) tile[c] = part[c] = 0.0f;
      ANTIPHON_ALL_LANES {
        const Vec x = At(part, 0, v);
        const Vec excess = hn::Sub(x, hn::Max(hn::Min(x, most), least));
        squares[v] = hn::Add(squares[v], hn::Mul(x, x));
        excesses[v] = hn::Add(excesses[v], hn::Mul(excess, excess));
        const Vec regular = hn::Add(hn::Mul(hn::Set(d, l2), x), hn::Mul(hn::Set(d, out_of_range), excess));
        Put(hn::Mul(scale, hn::Add(At(tile, 0, v), regular)), tile, 0, v);
      }
      if (out != nullptr) {
        for (size_t c = 0; c < width; ++c) out[static_cast<size_t>(first) + c] = tile[c];
      }
    }
    rows->squares[lane] += SumInOrder(squares);
    rows->excess[lane] += SumInOrder(excesses);
  }
}

#undef ANTIPHON_ALL_LANES

}  // namespace antiphon::chain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon::chain {

HWY_EXPORT(ExpOfRowsImpl);
HWY_EXPORT(ForwardFrameImpl);
HWY_EXPORT(BackwardFrameImpl);
HWY_EXPORT(FinishRowsImpl);

void ExpOfRows(const float* const rows[kLanes], int64_t cols, float limit, float* out) {
  HWY_DYNAMIC_DISPATCH(ExpOfRowsImpl)(rows, cols, limit, out);
}
void ForwardFrame(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha, float* next,
                  float* total) {
  HWY_DYNAMIC_DISPATCH(ForwardFrameImpl)(graph, likelihoods, leak, alpha, next, total);
}
void BackwardFrame(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha,
                   const float* inverse, const float* active, float* behind, float* gamma, float* weights,
                   float* here) {
  HWY_DYNAMIC_DISPATCH(BackwardFrameImpl)
  (graph, likelihoods, leak, alpha, inverse, active, behind, gamma, weights, here);
}
void FinishRows(const float* gamma, int64_t cols, float l2, float out_of_range, float limit, OutputRows* rows) {
  HWY_DYNAMIC_DISPATCH(FinishRowsImpl)(gamma, cols, l2, out_of_range, limit, rows);
}

}  // namespace antiphon::chain
#endif
