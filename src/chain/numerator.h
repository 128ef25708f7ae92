// The numerator of a chunk: what was said there, as paths of the denominator graph.
//
// Each boundary between phones may lie up to `tolerance` input frames before or behind where it was aligned, rounded to
// outputs, as long as every phone keeps an output. A chunk may begin inside a phone, which then stays, and end in one.
// Its paths begin in the denominator's states in which the reference may be there, with their initial probabilities,
// and follow its arcs: they are paths of the denominator, each counted once, and their sum is never larger than its.
//
// Shapes: outputs of the chunk from 0. Units: nats. Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "chain/denominator.h"
#include "chain/reference.h"

namespace antiphon::chain {

/// A piece of an utterance: outputs at input frames first_frame + k·step.
struct ChunkTimes {
  int first_frame = 0;
  int num_outputs = 0;
};

struct NumeratorOptions {
  int tolerance = 5;  // input frames
  int step = 3;       // input frames per output
};

/// The pdf-ids of every phone behind every other: what the numerator reads of a chain model.
class ContextPdfs {
 public:
  explicit ContextPdfs(const hmm::HmmModel& model);
  /// left 0: nothing.
  int32_t Entry(int32_t left, int32_t phone) const { return pdfs_[Index(left, phone)].first; }
  /// Phone 0 has −1.
  int32_t Loop(int32_t left, int32_t phone) const { return pdfs_[Index(left, phone)].second; }

 private:
  size_t Index(int32_t left, int32_t phone) const {
    return static_cast<size_t>(phone) * num_ + static_cast<size_t>(left);
  }
  size_t num_;
  std::vector<std::pair<int32_t, int32_t>> pdfs_;
};

/// How often a frame has a pdf-id, from 0 to 1.
struct Occupancy {
  int32_t output = 0;
  int32_t pdf_id = 0;
  float value = 0;
};

class Numerator {
 public:
  Numerator(const DenominatorGraph& denominator, const ContextPdfs& pdfs, const Reference& reference,
            const ChunkTimes& chunk, const NumeratorOptions& options);

  /// Empty if there is a path; else what is wrong with the chunk or its utterance.
  const std::string& problem() const { return problem_; }

  /// log Σ over the paths of Π probability · exp(score(output, pdf-id)); fills `occupancies` with those of its frames
  /// that are not 0, by output, each pair once. Only without a problem.
  double ForwardBackward(const std::function<double(int, int32_t)>& score, std::vector<Occupancy>* occupancies) const;

  size_t num_arcs() const { return arcs_.size(); }

 private:
  // From a node of the output before (for the first output: none) to one of this output.
  struct Arc {
    int32_t from;
    int32_t to;
    int32_t pdf_id;
    float probability;
  };
  class Builder;

  std::string problem_;
  std::vector<Arc> arcs_;
  std::vector<size_t> first_arc_;   // by output, and the end
  std::vector<int32_t> num_nodes_;  // by output
};

}  // namespace antiphon::chain
