// The search network HCLG: what the decoder walks over.
//
// Input labels are transition-ids (0: epsilon, an arc that takes no frame), output labels word ids; weights are costs
// (−log), with the self-loops in. A state's epsilon arcs stand before its emitting ones. There is no cycle of epsilon
// arcs.
//
// On disk a graph is a folder: HCLG.fst (OpenFst "const" file, arcs sorted by input label, mapped into memory when
// loaded), words.txt (OpenFst symbol table), lexicon.txt (the pronunciations, for word times) and graph.json (what it
// was built from). A graph belongs to the phones, topology and context tree of one model, and is refused with any
// other.
//
// Threads: const methods may run together.
// Errors: InputError naming the file, for a graph that is damaged or does not fit the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/graph/graph_arc.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

/// What a graph was built from; graph.json.
struct GraphInfo {
  std::string model_structure;     // checksum of phones, topology and tree
  std::string transition_weights;  // checksum of the transition probabilities
  std::string language_model;      // kind, file and checksum
  double self_loop_scale = 0.1;
  hmm::LexiconOptions lexicon;
  double unknown_words = 0;  // GraphBuildOptions::unknown_words
};

class GraphParts;

class Graph {
 public:
  Graph() = default;
  /// Copies; for graphs made in memory. words[0] is "<eps>". `pdf_of_transition` is indexed by transition-id, [0]
  /// unused.
  /// Classes are as many as the highest of those.
  Graph(std::vector<GraphState> states, std::vector<GraphArc> arcs, int32_t start, std::vector<std::string> words,
        std::vector<int32_t> pdf_of_transition);
  /// One that searches put together.
  Graph(std::shared_ptr<const GraphParts> parts, std::vector<std::string> words,
        std::vector<int32_t> pdf_of_transition);

  /// Maps the graph in `folder` and checks that it fits.
  static Graph Load(const std::filesystem::path& folder, const hmm::HmmModel& model);

  /// Of a graph in parts: the same with other parts. `lexicon`: the words that they speak of, of which the graph's own
  /// are the first. `language_model` says where their grammar came from.
  Graph WithParts(std::shared_ptr<const GraphParts> parts, std::shared_ptr<const hmm::Lexicon> lexicon,
                  std::string language_model) const;

  /// Null for a static graph; of others start, states and arcs are none: GraphWalk makes them.
  const std::shared_ptr<const GraphParts>& parts() const { return parts_; }
  int32_t start() const { return start_; }
  std::span<const GraphState> states() const { return states_; }
  std::span<const GraphArc> arcs() const { return arcs_; }
  std::span<const int32_t> pdf_of_transition() const { return pdf_of_transition_; }
  int num_pdfs() const { return num_pdfs_; }
  /// By word id; [0] is "<eps>".
  const std::vector<std::string>& words() const { return words_; }
  /// By word id: whether the graph can give it.
  std::vector<bool> SaidWords() const;
  const GraphInfo& info() const { return info_; }
  /// Empty for graphs made in memory.
  const std::shared_ptr<const hmm::Lexicon>& lexicon() const { return lexicon_; }

 private:
  void Check() const;

  std::vector<GraphState> states_;
  std::span<const GraphArc> arcs_;
  std::shared_ptr<const void> owner_;  // of arcs_
  std::shared_ptr<const GraphParts> parts_;
  int32_t start_ = 0;
  int num_pdfs_ = 0;
  std::vector<std::string> words_;
  std::vector<int32_t> pdf_of_transition_;
  GraphInfo info_;
  std::shared_ptr<const hmm::Lexicon> lexicon_;
};

/// Checksum of what a graph must share with the model that it is used with.
std::string ModelStructureChecksum(const hmm::HmmModel& model);

}  // namespace antiphon::decode
