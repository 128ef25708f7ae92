#include "chain/denominator_passes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/check.h"

namespace antiphon::chain {
namespace {

using Arc = DenominatorGraph::Arc;

LaneGraph Lay(const DenominatorGraph& graph) {
  LaneGraph lanes;
  lanes.num_states = static_cast<int32_t>(graph.states().size());
  lanes.num_pdfs = graph.num_pdfs();
  for (const DenominatorGraph::State& state : graph.states()) {
    lanes.initial.push_back(state.initial);
    lanes.loop_pdf.push_back(state.loop_pdf);
  }
  const std::span<const Arc> arcs = graph.arcs();
  std::vector<size_t> by_target(arcs.size());
  std::iota(by_target.begin(), by_target.end(), size_t{0});
  std::ranges::stable_sort(by_target, {}, [&](size_t a) { return std::tuple(arcs[a].to, arcs[a].pdf_id); });
  std::vector<int32_t> group_of(arcs.size());
  lanes.first_group.assign(graph.states().size() + 1, 0);
  for (const size_t a : by_target) {
    const Arc& arc = arcs[a];
    if (lanes.group_to.empty() || lanes.group_to.back() != arc.to || lanes.group_pdf.back() != arc.pdf_id) {
      lanes.group_to.push_back(arc.to);
      lanes.group_pdf.push_back(arc.pdf_id);
      lanes.first_arc.push_back(static_cast<int32_t>(lanes.arc_from.size()));
      ++lanes.first_group[static_cast<size_t>(arc.to) + 1];
    }
    group_of[a] = lanes.num_groups() - 1;
    lanes.arc_from.push_back(arc.from);
    lanes.arc_probability.push_back(arc.probability);
  }
  lanes.first_arc.push_back(static_cast<int32_t>(lanes.arc_from.size()));
  std::partial_sum(lanes.first_group.begin(), lanes.first_group.end(), lanes.first_group.begin());
  for (size_t s = 0; s < graph.states().size(); ++s) {
    lanes.first_leaving.push_back(static_cast<int32_t>(lanes.leaving_group.size()));
    for (const Arc& arc : graph.ArcsFrom(static_cast<int32_t>(s))) {
      lanes.leaving_group.push_back(group_of[static_cast<size_t>(&arc - arcs.data())]);
      lanes.leaving_probability.push_back(arc.probability);
    }
  }
  lanes.first_leaving.push_back(static_cast<int32_t>(lanes.leaving_group.size()));
  return lanes;
}

float* RowsAt(Matrix& matrix, int64_t step, int64_t rows) { return matrix.data() + step * rows * kLanes; }

}  // namespace

DenominatorPasses::DenominatorPasses(const DenominatorGraph& graph) : graph_(Lay(graph)) {}

void DenominatorPasses::Forward(ConstMatrixView outputs, const Lanes& lanes, int64_t num_outputs,
                                const OutputTerms& terms, Scratch* scratch) const {
  const int64_t states = graph_.num_states;
  for (int64_t s = 0; s < states; ++s) {
    std::ranges::fill(scratch->alpha_.Row(s), graph_.initial[static_cast<size_t>(s)]);
  }
  for (int64_t t = 0; t < num_outputs; ++t) {
    const float* rows[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (t < lanes.outputs[static_cast<size_t>(lane)])
        rows[lane] = outputs.Row(lanes.first_row + t * lanes.rows_per_output + lane).data();
    }
    float* likelihoods = RowsAt(scratch->likelihoods_, t, graph_.num_pdfs);
    ExpOfRows(rows, graph_.num_pdfs, terms.limit, likelihoods);
    ForwardFrame(graph_, likelihoods, terms.leak, RowsAt(scratch->alpha_, t, states),
                 RowsAt(scratch->alpha_, t + 1, states), scratch->totals_.Row(t).data());
  }
}

std::array<DenominatorPasses::Sums, kLanes> DenominatorPasses::Run(ConstMatrixView outputs, const Lanes& lanes,
                                                                   const OutputTerms& terms, MatrixView derivative,
                                                                   Scratch* scratch) const {
  CHECK_EQ(outputs.cols(), static_cast<int64_t>(graph_.num_pdfs));
  const int64_t num_outputs = *std::ranges::max_element(lanes.outputs);
  const int64_t states = graph_.num_states;
  scratch->likelihoods_.Resize(num_outputs * graph_.num_pdfs, kLanes);
  scratch->alpha_.Resize((num_outputs + 1) * states, kLanes);
  scratch->totals_.Resize(num_outputs + 1, kLanes);
  Forward(outputs, lanes, num_outputs, terms, scratch);

  std::array<Sums, kLanes> sums{};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (int32_t t = 0; t < lanes.outputs[lane]; ++t) {
      sums[lane].log_sum += std::log(static_cast<double>(scratch->totals_(t, static_cast<int64_t>(lane))));
    }
  }
  scratch->behind_.Resize(states, kLanes);
  scratch->here_.Resize(states, kLanes);
  scratch->gamma_.Resize(graph_.num_pdfs, kLanes);
  scratch->weights_.Resize(std::max(graph_.num_groups(), 1), kLanes);
  for (int64_t s = 0; s < states; ++s) std::ranges::fill(scratch->behind_.Row(s), 1.0F);
  OutputRows rows;
  std::ranges::copy(lanes.scale, rows.scale);
  for (int64_t t = num_outputs; t-- > 0;) {
    alignas(64) float inverse[kLanes], active[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool on = t < lanes.outputs[static_cast<size_t>(lane)];
      const int64_t row = lanes.first_row + t * lanes.rows_per_output + lane;
      inverse[lane] = 1.0F / scratch->totals_(t, lane);
      active[lane] = on ? 1.0F : 0.0F;
      rows.outputs[lane] = on ? outputs.Row(row).data() : nullptr;
      rows.derivatives[lane] = on && !derivative.empty() ? derivative.Row(row).data() : nullptr;
    }
    if (!derivative.empty()) {
      BackwardFrame(graph_, RowsAt(scratch->likelihoods_, t, graph_.num_pdfs), terms.leak,
                    RowsAt(scratch->alpha_, t, states), inverse, active, scratch->behind_.data(),
                    scratch->gamma_.data(), scratch->weights_.data(), scratch->here_.data());
    }
    FinishRows(derivative.empty() ? nullptr : scratch->gamma_.data(), graph_.num_pdfs, terms.l2, terms.out_of_range,
               terms.limit, &rows);
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sums[lane].squares = rows.squares[lane];
    sums[lane].excess = rows.excess[lane];
  }
  return sums;
}

}  // namespace antiphon::chain
