// What a run does with a model of which each rank holds a part: the file of the whole, checkpoints of the parts, and
// going on from those of another division.
//
// Memory: pieces of a few MB beyond a rank's own part; while rank 0 saves layers that the file holds rounded or masked,
// one of them whole, and the rounded ones in the file's form. Threads: one per rank. Errors: InputError for files that
// do not fit; those of the communicator.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "math/safetensors.h"
#include "nn/model.h"
#include "parallel/model_parts.h"

namespace antiphon::train {

/// Rank 0 writes `path`, as Model::Save would write the whole; `model` has an outline as its network and counts on rank
/// 0 alone, `outline` is the same on all ranks, `part` each rank's own. Returns the whole network's hash, on all ranks.
/// Collective.
uint64_t SaveDividedModel(comm::Communicator& comm, const parallel::ModelParts& parts, nn::Network& part,
                          const nn::Network& outline, const nn::Model& model, const std::filesystem::path& path);

/// Values and buffers of a rank's part, from the whole model of the same layers.
void CopyPart(const nn::Network& whole, nn::Network& part);

/// How the model was divided, as tensor "parts"; nothing for a null pointer.
void SaveParts(SafetensorsWriter& writer, const parallel::ModelParts* parts);
/// Null if the checkpoint's rank held the whole.
std::unique_ptr<parallel::ModelParts> LoadParts(const SafetensorsReader& reader);

/// Values laid out as network.values(), as one tensor per parameter.
void SaveValues(SafetensorsWriter& writer, const std::string& prefix, const nn::Network& network,
                std::span<const float> values);

/// From the checkpoints of other ranks, one reader each, whose parts may be others: what of the tensors named `prefix`
/// and a parameter's name belongs to `network`, into `values` laid out as its own. `mean`: over the ranks that hold a
/// value, else as the last of them has it.
void FoldValues(std::span<const SafetensorsReader> ranks, const std::string& prefix, bool mean, nn::Network& network,
                std::span<float> values);
/// The network's own values and buffers.
void FoldNetwork(std::span<const SafetensorsReader> ranks, const std::string& prefix, bool mean, nn::Network& network);

}  // namespace antiphon::train
