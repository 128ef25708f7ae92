// One frame of the denominator's forward or backward pass, for sixteen chunks at once, one per lane.
//
// The graph is the same for all lanes: loops run over its arcs, vectors over the lanes. Arcs that enter the same state
// with the same pdf-id form a group: what they bring is added before it is multiplied by the pdf-id's likelihood.
// Layout: "[n]" below is n rows of kLanes values, aligned to 64 bytes. The same bits on every instruction set: sums and
// products are rounded one by one, in an order that the graph sets.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace antiphon::chain {

constexpr int kLanes = 16;

/// A denominator graph as the kernels walk over it.
struct LaneGraph {
  int32_t num_states = 0;
  int32_t num_pdfs = 0;
  std::vector<float> initial;     // by state
  std::vector<int32_t> loop_pdf;  // by state; −1: none
  // Groups by the state that they enter, each with its arcs.
  std::vector<int32_t> first_group;  // by state, and the end
  std::vector<int32_t> group_to;
  std::vector<int32_t> group_pdf;
  std::vector<int32_t> first_arc;  // by group, and the end
  std::vector<int32_t> arc_from;
  std::vector<float> arc_probability;
  // The same arcs by the state that they leave.
  std::vector<int32_t> first_leaving;  // by state, and the end
  std::vector<int32_t> leaving_group;
  std::vector<float> leaving_probability;

  int32_t num_groups() const { return static_cast<int32_t>(group_to.size()); }
};

/// out [cols] = exp of the rows' values, limited to ±limit, a row per lane; 1 in lanes without a row (null).
void ExpOfRows(const float* const rows[kLanes], int64_t cols, float limit, float* out);

/// next [states] from alpha [states]: what arrives over arcs, over its sum by lane, and the leak of it, which gives
/// each state `leak` times its initial probability. total[kLanes] is the sum before it was divided by.
void ForwardFrame(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha, float* next,
                  float* total);

/// behind [states] in place, from that of the next frame: what goes on from the state is worth. gamma [pdfs] are the
/// frame's occupancies. inverse[kLanes] = 1 / total of this frame; lanes where active is 0 (else 1) keep behind = 1 and
/// have no occupancies. weights [groups] and here [states] are scratch.
void BackwardFrame(const LaneGraph& graph, const float* likelihoods, float leak, const float* alpha,
                   const float* inverse, const float* active, float* behind, float* gamma, float* weights, float* here);

/// One output of each lane, where rows are made of what the lanes brought.
struct OutputRows {
  const float* outputs[kLanes] = {};  // y, by pdf-id; null: no row
  float* derivatives[kLanes] = {};    // null: none wanted; may be the outputs' own memory
  float scale[kLanes] = {};           // of the derivative
  double squares[kLanes] = {};        // Σ y², added to
  double excess[kLanes] = {};         // Σ (y − limited y)², added to
};

/// derivatives = scale · (gamma + l2 · y + out_of_range · (y − y limited to ±limit)), with gamma [cols] (null: 0).
void FinishRows(const float* gamma, int64_t cols, float l2, float out_of_range, float limit, OutputRows* rows);

}  // namespace antiphon::chain
