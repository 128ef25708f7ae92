// How the rows of a minibatch follow one another in time, kept beyond the minibatch, whose memory it would otherwise
// lie in.
//
// Threads: one. Errors: what reading a checkpoint throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sequence_layout.h"
#include "math/safetensors.h"

namespace antiphon::parallel {

class KeptSequences {
 public:
  KeptSequences() = default;
  // The layout sees the vectors, whose memory moves along but is not copied.
  KeptSequences(KeptSequences&&) = default;
  KeptSequences& operator=(KeptSequences&&) = default;

  /// Null: frames that stand alone.
  void Keep(const SequenceLayout* layout);
  /// From now on every stream begins.
  void LetAllBegin();

  /// Null: frames that stand alone.
  const SequenceLayout* layout() const { return layout_ ? &*layout_ : nullptr; }

  void Save(SafetensorsWriter& writer, const std::string& prefix) const;
  void Load(const SafetensorsReader& reader, const std::string& prefix);

 private:
  void See(int streams, int frames);

  std::vector<uint8_t> begins_;
  std::vector<int32_t> lengths_;
  std::optional<SequenceLayout> layout_;
};

}  // namespace antiphon::parallel
