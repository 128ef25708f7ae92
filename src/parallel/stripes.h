// How a network is divided by outputs over the ranks of a replica (striped_network.h), and which of its lowest layers
// are not, but computed by each rank for its own frames (data_parallel_front.h).
//
// Threads: free functions. Errors: UsageError for workers that do not make up replicas, and for layers between which
// the network cannot be cut.
#pragma once

#include <memory>

#include "base/options.h"
#include "parallel/model_parts.h"

namespace antiphon::parallel {

/// Of methods whose ranks r·stripes … r·stripes + stripes − 1 hold replica r, divided by outputs.
struct StripesOptions {
  int stripes = 0;
  int sparse_links = -1;
  int data_parallel_layers = 0;
  template <class V>
  void Visit(V& v) {
    v("stripes", stripes, Range{0, 4096}, "ranks that hold one replica of the model together; 0: all workers");
    v("sparse-links", sparse_links, Range{-1, 1 << 20},
      "units of each other rank that a unit sees; -1: all. Weights of the other links stay 0");
    v("data-parallel-layers", data_parallel_layers, Range{-1, 1 << 20},
      "lowest layers that are not divided: each rank computes them for its own frames of a minibatch; -1: as many as "
      "hold all that cannot be divided");
  }
};

/// `stripes` of the table; UsageError if the workers cannot be divided into replicas of so many.
int StripesOf(const Config& parallel, int workers);

/// How many of the lowest layers each of `stripes` ranks computes for its own frames, where `data-parallel-layers` asks
/// for so many. With −1: up to the highest that has products and cannot be divided, and what follows it without any.
size_t FrontLayers(const nn::Network& network, int asked, int stripes);

/// The division that StripedNetwork works with; null for one stripe.
std::unique_ptr<ModelParts> DivideByOutputs(const DivisionTask& task);

}  // namespace antiphon::parallel
