// One step of a plan: what a layer, and the activation that it absorbs, becomes at run time.
//
// A kind of step is one file in infer/steps that ends with
//   REGISTER_COMPONENT(StepRegistry, "affine", [](const StepArgs& args) { return std::make_unique<…>(args); });
// named like the layer's type. A factory that returns nothing leaves the layer out (dropout). Types without a factory
// run as the layer itself does, in fp32, if they look at one frame at a time.
//
// A sequential step looks at several frames of a stream, or remembers what was before: what it needs to go on is a
// StepState per stream, so that a stream's scores do not depend on the pieces in which its frames come.
// Threads: read-only once built; memory comes from the caller.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/registry.h"
#include "base/time_context.h"
#include "infer/packed_dense.h"
#include "infer/rows.h"
#include "nn/network.h"

namespace antiphon::infer {

struct PlanOptions {
  DataType precision = DataType::kFloat32;
  /// The best instruction set that may be used.
  Isa isa = BestIsa();
  /// Speakers' profiles may change hidden values: these take no format whose range is fixed without having been
  /// measured.
  bool adaptable = false;
  /// False in a plan inside a step: what it reads are no features, and where hidden values overflow the scores tell.
  bool check_input = true;
};

/// "fp32", "bf16" or "int8"; UsageError otherwise.
DataType ParsePlanPrecision(std::string_view name);
/// And "auto": int8 for networks whose weights are stored in few bits, else bf16 where `isa` has instructions for it,
/// else fp32.
DataType ParsePlanPrecision(std::string_view name, const nn::Network& network, Isa isa);
std::string_view PlanPrecisionName(DataType type);

struct StepArgs {
  const nn::Network& network;
  size_t layer = 0;
  /// Applied at the end of the step.
  Activation activation = Activation::kNone;
  PlanOptions options;

  int in_dim() const { return network.layer(layer).in_dim(); }
  int out_dim() const { return network.layer(layer).out_dim(); }
  /// The layer's own: a layer inside another one may be called as this one is.
  std::span<nn::Parameter* const> parameters() const;
  std::span<nn::Parameter* const> buffers() const;
  /// The layer's parameter or buffer "weight" …; empty if it has none.
  ConstMatrixView Find(std::string_view name) const;
  /// The same; InternalError if it is missing.
  ConstMatrixView Get(std::string_view name) const;
  /// The parameter "bias"; empty if there is none.
  std::span<const float> Bias() const;
  /// The format of a step that reads `type`: in 8 bits with the range that calibration found, if it did.
  OutputFormat InputFormat(DataType type) const;
  /// The layer's own keys.
  Config LayerConfig() const { return network.layer(layer).ToConfig(); }
};

/// What a step reads and computes with, for benchmarks.
struct StepInfo {
  std::string layer;
  std::string kernel;
  std::string isa;
  int64_t weight_bytes = 0;     // read once per batch
  int64_t operations = 0;       // multiplications and additions of a dense layer of this shape, per row that goes out
  int64_t done_operations = 0;  // those that the kernel does
};

class PlanState;

/// What a step remembers of one stream from run to run.
struct StepState {
  std::vector<float> values;
  int rows = 0;                      // of a splice: how many it keeps
  std::shared_ptr<PlanState> inner;  // of a step that has a plan of its own
  std::vector<StepState> parts;      // of a step that has several
  size_t bytes() const;
};

/// The rows of a run: rows[i] consecutive ones belong to stream i.
struct StreamRows {
  std::span<int> rows;
  std::span<StepState* const> states;
};

class PlanStep {
 public:
  PlanStep(int64_t in_dim, int64_t out_dim) : in_dim_(in_dim), out_dim_(out_dim) {}
  virtual ~PlanStep() = default;

  int64_t in_dim() const { return in_dim_; }
  int64_t out_dim() const { return out_dim_; }

  /// The format that Run reads; scale 0 in an 8-bit one: not known beforehand, each row has its own.
  virtual OutputFormat input_format() const { return {}; }
  /// The format that the next step reads. A step that cannot write it goes on writing floats.
  virtual void OfferOutput(const OutputFormat& /*wanted*/) {}
  virtual OutputFormat output_format() const { return {}; }

  /// `in` has input_format, `out` is to be written in output_format, or as floats if it holds floats. `scratch` has
  /// scratch_bytes(rows) or more.
  virtual void Run(const Rows& in, const Rows& out, std::byte* scratch) const = 0;
  virtual int64_t scratch_bytes(int /*rows*/) const { return 0; }

  /// Rows that come in for each that goes out.
  virtual int stride() const { return 1; }

  /// Whether Run multiplies what it writes by `out.factors`.
  virtual bool takes_factors() const { return false; }

  /// Whether rows must be run by RunStreams.
  virtual bool sequential() const { return false; }
  /// Sizes and clears what the step remembers.
  virtual void Begin(StepState& /*state*/) const {}
  /// As Run, for a sequential step: reads floats, writes floats, and sets streams.rows to the rows that it gave. `out`
  /// has room for as many as came in.
  virtual void RunStreams(const Rows& /*in*/, const StreamRows& /*streams*/, const Rows& /*out*/,
                          std::byte* /*scratch*/) const {}

  /// Whether Run calls the network, which must then outlive the step.
  virtual bool needs_network() const { return false; }

  virtual StepInfo Info() const = 0;

 private:
  int64_t in_dim_;
  int64_t out_dim_;
};

using StepRegistry = Registry<PlanStep, const StepArgs&>;

}  // namespace antiphon::infer
