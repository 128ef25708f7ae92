// Makes a trained model smaller or faster: one file per method in compress/methods, which registers itself.
//
//   const auto method = MethodRegistry::Get().Create("svd", Config::Parse("energy = 0.8", "svd"));
//   const Changes changes = method->Apply(model, {.frames = &frames, .seed = 1});
//
// Whatever a method does, the result is a model that is saved and loaded, scores, trains on and is exported like any
// other. A method file ends with
//   REGISTER_COMPONENT(MethodRegistry, "foo", [](const Config& c) { return std::make_unique<Foo>(ReadOptions<…>(c));
//   });
//
// Threads: one at a time per model; arithmetic in the caller's compute threads. Determinism: same model, frames,
// options and seed, same bits. Errors: UsageError for impossible options; InputError if the model cannot be treated so.
// A model is unchanged if Apply throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "math/matrix.h"
#include "nn/model.h"

namespace antiphon::compress {

/// Inputs of the network from speech like that which it will see, spliced: for statistics and ranges.
class InputFrames {
 public:
  virtual ~InputFrames() = default;
  /// Back to the first.
  virtual void Rewind() = 0;
  /// The next [N, in_dim], valid until the next call; empty at the end. In streams for networks that need them.
  virtual nn::NetworkInput Next() = 0;
};

struct MethodInput {
  InputFrames* frames = nullptr;  // null: there are none
  uint64_t seed = 1;
};

/// What was done to a layer, for the person: "affine2", "rank 96 of 256, 82.1 % of the energy".
struct Change {
  std::string layer;
  std::string what;
};
using Changes = std::vector<Change>;

class Method {
 public:
  virtual ~Method() = default;
  virtual Changes Apply(nn::Model& model, const MethodInput& input) const = 0;
  /// With these options the outputs stay as they were, up to rounding in fp32.
  virtual bool keeps_output() const { return false; }
  /// Apply needs frames.
  virtual bool needs_frames() const { return false; }
};

using MethodRegistry = Registry<Method, const Config&>;

/// The frames, or a UsageError that says who needs them.
InputFrames& RequireFrames(const MethodInput& input, const std::string& method);

}  // namespace antiphon::compress
