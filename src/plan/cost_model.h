// How fast a training method goes on a cluster: its schedule of work and messages played through without arithmetic.
//
//   const CostResult r = SimulateCost(CostNetwork({462, 2048, 10217}), {.method = "bmuf", .workers = 64}, cluster);
//
// What each method is taken to do stands at the top of its file (parallel/strategies/*_cost.cc). Speeds are those of
// the steady state: the beginning is left out. Everything is determined by the arguments.
// Units: FLOP per frame; bytes; seconds of virtual time; frames of all workers together.
// Errors: UsageError for plans that cannot be: no workers, more stages than layers, too little memory, no such method.
#pragma once

#include <string>
#include <vector>

#include "comm/cluster.h"

namespace antiphon::plan {

/// A chain of fully connected layers as far as its cost goes.
struct CostLayer {
  double weights = 0;  // biases left out
  double out_dim = 0;
  double forward_flops = 0;   // per frame
  double backward_flops = 0;  // gradient, and derivative passed down
};

struct CostNetwork {
  CostNetwork() = default;
  /// Sizes of input, hidden layers and output.
  explicit CostNetwork(const std::vector<int>& dims);
  double weights() const;
  double flops() const;  // of a step, per frame
  double in_dim = 0;
  std::vector<CostLayer> layers;
};

/// Visit leaves method and workers to whoever varies them.
struct CostPlan {
  std::string method = "ssgd";
  int workers = 1;                // that take minibatches; ranks besides them (servers) are added
  int minibatch = 256;            // frames of one worker's step
  int sync_period = 8;            // steps between two exchanges, where the method has a period
  int accumulate = 1;             // minibatches whose gradients are sent together
  std::string exchange = "";      // pieces|tree|ring|two-stage; empty: as the method of this program does it
  bool overlap = true;            // ssgd, pipeline: exchange while computing
  bool overlap_copies = false;    // asgd: values travel while computing
  std::string divide = "";        // ssgd: what workers keep an N-th of; empty: nothing
  double optimizer_values = 0;    // that the optimiser keeps of each weight
  std::string codec = "";         // of gradients; empty: fp32
  double bits_per_value = 0;      // of what is sent; 0: by the codec
  double codec_gb_s = 0;          // fp32 values encoded or decoded, in 10^9 bytes per second; 0: at once
  int servers = 0;                // asgd: ranks that hold the model's parts; 0: the workers do
  std::vector<int> stage_layers;  // pipeline: layers of each stage from below; empty: balanced
  int stripes = 0;                // pipeline: devices that share the output layer; 0: what balances best
  int group = 2;                  // model-parallel, asgd-groups: devices that share each layer
  int front_layers = 0;           // model-parallel: lowest ones that are data-parallel inside a group
  int cg_iterations = 50;         // hessian-free: of conjugate gradients in each step
  int curvature_minibatches = 4;  // hessian-free: of each worker, for the curvature
  int check_minibatches = 4;      // hessian-free: of each worker, to judge steps by
  template <class V>
  void Visit(V& v) {
    v("minibatch", minibatch, Range{1, 1 << 24}, "frames of one worker's step");
    v("sync-period", sync_period, Range{1, 1 << 30}, "steps between two exchanges of models");
    v("accumulate", accumulate, Range{1, 1 << 20}, "minibatches whose gradients are sent together");
    v("exchange", exchange, OneOf{{"", "pieces", "tree", "ring", "two-stage"}},
      "how sums go round; empty: as this program does");
    v("overlap", overlap, "ssgd, pipeline: exchange while computing");
    v("overlap-copies", overlap_copies, "asgd: values travel while computing (the program's overlap)");
    v("divide", divide, OneOf{{"", "optimizer", "gradients"}},
      "ssgd: what each worker keeps an N-th of, the optimiser's state, or that and the gradients; empty: nothing");
    v("optimizer-values", optimizer_values, Range{0, 1e3},
      "that the optimiser keeps of each weight, for the memory: momentum 1, adam 2");
    v("codec", codec, OneOf{{"", "fp32", "bf16", "fp16", "int8", "one-bit", "top-k", "threshold"}},
      "of gradients; empty: fp32");
    v("bits-per-value", bits_per_value, Range{0, 64}, "of what is sent; 0: by the codec");
    v("codec-gb-s", codec_gb_s, Range{0, 1e6}, "fp32 values encoded or decoded, 10^9 bytes per second; 0: at once");
    v("servers", servers, Range{0, 1 << 16}, "asgd: ranks of their own that hold the model's parts; 0: the workers do");
    v("stage-layers", stage_layers, Range{1, 1e6}, "pipeline: layers of each stage from below; empty: balanced");
    v("stripes", stripes, Range{0, 1e6}, "pipeline: devices that share the output layer; 0: what balances best");
    v("group", group, Range{1, 1e6},
      "model-parallel, asgd-groups: devices that share each layer; workers is a multiple of it");
    v("front-layers", front_layers, Range{-1, 1e6},
      "model-parallel: lowest layers that each device of a group computes for its own frames; -1: with which least is "
      "sent");
    v("cg-iterations", cg_iterations, Range{1, 1e6}, "hessian-free: of conjugate gradients in each step");
    v("curvature-minibatches", curvature_minibatches, Range{1, 1e9}, "hessian-free: of a worker, for the curvature");
    v("check-minibatches", check_minibatches, Range{1, 1e9}, "hessian-free: of a worker, to judge steps by");
  }
  /// That have a schedule.
  static std::vector<std::string> CostMethods();
};

/// Of what travels; threshold's share is taken for top-k's of 1 %.
double BitsPerValue(const CostPlan& plan);

struct CostResult {
  double frames_per_second = 0;
  double serial_frames_per_second = 0;  // one device, the same minibatch, nothing exchanged
  double speedup = 0;
  double compute_share = 0;        // of the devices' time
  double bytes_per_frame = 0;      // in messages
  double staleness = 0;            // asgd: updates by others between reading and adding, on average
  double memory_bytes = 0;         // of the fullest device
  int ranks = 0;                   // devices and servers
  std::vector<std::string> split;  // pipeline: "layers 1–4", …, "layer 8, a half"
};

CostResult SimulateCost(const CostNetwork& network, const CostPlan& plan, const comm::ClusterOptions& cluster);

/// Frames per second of one device alone.
double SerialFramesPerSecond(const CostNetwork& network, int minibatch, const comm::ClusterOptions& cluster);

}  // namespace antiphon::plan
