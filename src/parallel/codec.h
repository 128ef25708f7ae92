// How gradients are written for sending: exactly, or shorter, with a memory of what was left out.
//
// A codec is named by the table `codec` of a strategy that exchanges gradients:
//   [parallel]
//   method = "ssgd"
//   codec = { type = "one-bit" }
// It works on matrices of one layer's weights; vectors (biases) always travel as fp32. The memory (error feedback) is
// kept by the caller as planes of the gradient's shape, zero in the beginning, so that checkpoints hold it: what is not
// sent now is added to the next gradient, and nothing is lost for good.
// Units: a gradient is that of the loss averaged over all frames of a step; memories are in the same units, so that a
// change of the learning rate or of the number of workers rescales what is still to come. Threads: one codec per rank.
// Determinism: the same input gives the same bytes. Errors: UsageError for options; InputError for a code that does
// not fit (a damaged message).
// A codec is one file in parallel/codecs that ends with
//   REGISTER_COMPONENT(CodecRegistry, "foo", [](const Config& config) { return std::make_unique<Foo>(config); });
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "math/matrix.h"
#include "math/safetensors.h"

namespace antiphon::parallel {

using Code = std::vector<std::byte>;

/// What a codec may know of the step whose gradients it is about to get.
struct CodecStep {
  double epoch = 0;    // position in the run
  int rank = 0;        // whose gradients they are
  int world_size = 1;  // number of gradients that are summed
};

class Codec {
 public:
  virtual ~Codec() = default;

  /// Planes of memory that Encode wants, and EncodeSum.
  virtual int num_planes() const { return 0; }
  virtual int num_sum_planes() const { return num_planes(); }
  /// A worker's part of a matrix is a range of columns (kColumnUnit at a time) instead of rows.
  virtual bool by_columns() const { return false; }
  static constexpr int64_t kColumnUnit = 8;

  /// Before the gradients of a step.
  virtual void BeginStep(const CodecStep& step) { (void)step; }
  /// Appends the code of `gradient` and of what its memory holds; changes the memory. `memory` has num_planes() views
  /// of the gradient's shape.
  virtual void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) = 0;
  /// Overwrites `gradient`; returns how many bytes the code took.
  virtual size_t Decode(std::span<const std::byte> code, MatrixView gradient) = 0;
  /// The same for a sum of decoded gradients, on its way from the rank that made it to all others.
  virtual void EncodeSum(ConstMatrixView sum, std::span<const MatrixView> memory, Code& code) {
    Encode(sum, memory, code);
  }
  virtual size_t DecodeSum(std::span<const std::byte> code, MatrixView sum) { return Decode(code, sum); }
  /// Weight of the last gradients that it adds to each new one, as an optimiser's momentum does; 0: none.
  virtual double momentum() const { return 0; }
  /// Whether sums_are_usable may be false. If so, ranks that each decode other rows agree on it, by one more AllReduce
  /// per step.
  virtual bool judges_sums() const { return false; }
  /// What this rank has decoded in the step can be used.
  virtual bool sums_are_usable() const { return true; }
  /// After a step's last DecodeSum. `usable`: sums_are_usable of all ranks. Returns, alike on all ranks, whether the
  /// step is taken.
  virtual bool EndStep(bool usable) { return usable; }

  virtual void SaveState(SafetensorsWriter&, const std::string&) const {}
  virtual void LoadState(const SafetensorsReader&, const std::string&) {}
  virtual std::string Describe() const = 0;
};

using CodecRegistry = Registry<Codec, const Config&>;

/// From a `codec` table: key `type` names it (default "fp32").
std::unique_ptr<Codec> MakeCodec(const Config& config);
std::string CodecName(const Config& config);

/// Copies the first bytes of `code` into `target`; InputError if there are fewer. Returns how many.
size_t TakeBytes(std::span<const std::byte> code, std::span<std::byte> target);
void AppendBytes(std::span<const std::byte> bytes, Code& code);

}  // namespace antiphon::parallel
