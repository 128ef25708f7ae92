// What a layer may be able to do beyond what every layer does (nn/layer.h).
//
// A layer that can do it derives from the interface and returns `this` from the function of Layer that asks for it; who
// finds null there goes on without. Threads, errors: as Layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "math/matrix.h"
#include "nn/exec_context.h"
#include "nn/parameter.h"
#include "nn/workspace.h"

namespace antiphon::nn {

/// Knows its derivative along a direction (Layer::Tangent, which checks the shapes).
class HasTangent {
 public:
  /// dx is empty only if the layer has parameters.
  virtual void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                         MatrixView dy) = 0;

 protected:
  ~HasTangent() = default;
};

/// How many of a layer's inputs do not vary, by the statistics that it keeps of them.
struct StillInputs {
  const Parameter* statistics = nullptr;  // their name tells which layer it is
  int64_t still = 0;
  int64_t all = 0;
};

/// Keeps statistics over data (batch normalisation): cleared, then gathered from passes in training mode. Used after
/// parameters were averaged, when the old statistics no longer fit.
class HasStatistics {
 public:
  virtual void ResetStatistics() = 0;
  /// From the workspace of a pass.
  virtual void AccumulateStatistics(Workspace& ws) = 0;
  /// Appends where they are kept: of the layer's buffers those that are sums over data.
  virtual void ListStatistics(std::vector<Parameter*>& list) = 0;
  /// Appends what they say of the layer's inputs; a layer with a chain inside tells as Network::ListStillUnits.
  virtual void ListStillInputs(std::vector<StillInputs>& list) const = 0;
  /// They stay as they are from here on, and the layer has none any more: it is frozen.
  virtual void FreezeStatistics() = 0;

 protected:
  ~HasStatistics() = default;
};

/// Has values that training may move only within limits.
class Constrained {
 public:
  /// Brings values back to where they may be, after steps first … first + count − 1 of training. Who does it at
  /// intervals does it once if it is due after any of these steps. Every replica is told of its own steps, one at a
  /// time; but where workers add what they change to one common model, only one of them is told, of the steps of all:
  /// corrections of the same error would add up, too.
  virtual void AfterSteps(int64_t first, int64_t count) = 0;

 protected:
  ~Constrained() = default;
};

}  // namespace antiphon::nn
