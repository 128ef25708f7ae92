// The graph of lattice-free sequence training: all that may be said, as states, pdf-ids and probabilities, without
// words.
//
// Made of an n-gram model of the training alignments' phones without back-off (what was never seen is not in the
// graph), expanded to the model's states. Every arc takes a frame. Utterances may begin anywhere: the initial
// probabilities are the graph's own after many frames, and may end anywhere.
//
// File: safetensors with the tensors from, to, pdf_ids, probabilities [arcs] and initial [states], and the checksum of
// the model's structure (decode/graph.h).
// Threads: immutable once made. Errors: InputError for alignments without phones, and for files of another model.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "hmm/hmm_model.h"

namespace antiphon::decode {

struct DenominatorOptions {
  int order = 3;
  double self_loop_scale = 1.0;
  template <class V>
  void Visit(V& v) {
    v("order", order, Range{2, 4},
      "phones per n-gram; more make a larger graph, whose arcs are all followed in a frame");
    v("self-loop-scale", self_loop_scale, Range{0.0, 10.0}, "weight of the self-loops' probabilities");
  }
};

class DenominatorGraph {
 public:
  struct Arc {
    int32_t from;
    int32_t to;
    int32_t pdf_id;
    float probability;
  };

  /// `arcs` in any order. Initial probabilities are found from them; `start` is where the graph begins.
  DenominatorGraph(int32_t num_states, int32_t start, std::vector<Arc> arcs);
  /// From phone sequences.
  static DenominatorGraph Build(const hmm::HmmModel& model, const std::vector<std::vector<int32_t>>& phones,
                                const DenominatorOptions& options);
  /// `model` must be that of Save.
  static DenominatorGraph Load(const std::filesystem::path& path, const hmm::HmmModel& model);
  void Save(const std::filesystem::path& path, const hmm::HmmModel& model) const;

  int32_t num_states() const { return static_cast<int32_t>(initial_.size()); }
  int32_t num_pdfs() const { return num_pdfs_; }
  /// Sorted by pdf-id.
  std::span<const Arc> arcs() const { return arcs_; }
  std::span<const Arc> ArcsOf(int32_t pdf_id) const {
    const auto p = static_cast<size_t>(pdf_id);
    return std::span(arcs_).subspan(first_arc_[p], first_arc_[p + 1] - first_arc_[p]);
  }
  /// Sums to 1.
  std::span<const float> initial() const { return initial_; }

 private:
  DenominatorGraph() = default;
  void Index();

  int32_t num_pdfs_ = 0;
  std::vector<Arc> arcs_;
  std::vector<size_t> first_arc_;  // by pdf-id, and the end
  std::vector<float> initial_;
};

}  // namespace antiphon::decode
