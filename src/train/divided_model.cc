#include "train/divided_model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::train {
namespace {

using parallel::ModelParts;
using parallel::ValueRange;

constexpr char kParts[] = "parts";

// Where a parameter stands in its network.
struct Place {
  size_t layer;
  bool buffer;
  size_t number;
};

std::map<std::string, Place> Places(nn::Network& network) {
  std::map<std::string, Place> places;
  for (size_t layer = 0; layer < network.num_layers(); ++layer) {
    for (const bool buffer : {false, true}) {
      const auto all = buffer ? network.layer(layer).buffers() : network.layer(layer).parameters();
      for (size_t number = 0; number < all.size(); ++number) places[all[number]->name] = {layer, buffer, number};
    }
  }
  return places;
}

// A rank of a run that is over.
struct FormerRank {
  const SafetensorsReader* reader;
  std::vector<nn::OutputRange> held;  // empty: everything
};

std::vector<FormerRank> FormerRanks(std::span<const SafetensorsReader> readers, size_t layers) {
  std::vector<FormerRank> ranks;
  for (size_t r = 0; r < readers.size(); ++r) {
    const auto parts = LoadParts(readers[r]);
    if (parts && parts->Of(0).size() != layers) {
      Throw<InputError>("'{}' holds parts of {} layers, the network has {}", readers[r].path().string(),
                        parts->Of(0).size(), layers);
    }
    ranks.push_back({&readers[r], parts ? parts->Of(static_cast<int>(r)) : std::vector<nn::OutputRange>()});
  }
  return ranks;
}

// What a former rank has of the values that are wanted.
struct Source {
  int64_t first;  // in the whole parameter
  int64_t count;
  const std::byte* data;
};

std::vector<Source> Sources(const std::vector<FormerRank>& ranks, const std::string& tensor, const nn::Parameter& p,
                            size_t layer, int out_dim) {
  std::vector<Source> sources;
  for (const FormerRank& rank : ranks) {
    if (!rank.reader->Has(tensor)) continue;  // servers that do nothing else average no models
    const ValueRange theirs = parallel::ValuesOf(p, out_dim, rank.held.empty() ? nn::OutputRange{} : rank.held[layer]);
    const int64_t first = std::max(theirs.first, p.whole.first);
    const int64_t end = std::min(theirs.first + theirs.count, p.whole.first + p.value.size());
    if (first >= end) continue;
    const TensorView& view = rank.reader->Tensor(tensor);
    if (view.type != TensorType::kF32 || view.data.size() != static_cast<size_t>(theirs.count) * sizeof(float)) {
      Throw<InputError>("'{}': tensor '{}' has {} bytes, expected {} values", rank.reader->path().string(), tensor,
                        view.data.size(), theirs.count);
    }
    sources.push_back(
        {first, end - first, view.data.data() + static_cast<size_t>(first - theirs.first) * sizeof(float)});
  }
  return sources;
}

void FoldParameter(const std::vector<FormerRank>& ranks, const std::string& prefix, bool mean, const nn::Parameter& p,
                   size_t layer, int out_dim, float* target) {
  std::fill_n(target, p.value.size(), 0.0f);
  const std::vector<Source> sources = Sources(ranks, prefix + p.name, p, layer, out_dim);
  int64_t covered = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    const Source& source = sources[s];
    const auto same = [&](const Source& other) { return other.first == source.first; };
    const auto holders = std::count_if(sources.begin(), sources.end(), same);
    const bool last = std::none_of(sources.begin() + static_cast<std::ptrdiff_t>(s) + 1, sources.end(), same);
    if (last) covered += source.count;
    if (!mean && !last) continue;
    const auto share = static_cast<float>(mean ? 1.0 / static_cast<double>(holders) : 1.0);
    float* out = target + (source.first - p.whole.first);
    for (int64_t i = 0; i < source.count; ++i) {
      float value = 0;
      std::memcpy(&value, source.data + static_cast<size_t>(i) * sizeof(float), sizeof(float));
      out[i] += share * value;
    }
  }
  if (covered != p.value.size()) {
    Throw<InputError>("the ranks of then have {} of the {} values of '{}' that are needed here", covered,
                      p.value.size(), p.name);
  }
}

}  // namespace

uint64_t SaveDividedModel(comm::Communicator& comm, const ModelParts& parts, nn::Network& part,
                          const nn::Network& outline, const nn::Model& model, const std::filesystem::path& path) {
  const std::map<std::string, Place> places = Places(part);
  const auto stream = [&](const Place& place, const std::function<void(std::span<const float>)>& take) {
    parallel::StreamParameter(comm, parts, part, place.layer, place.buffer, place.number, take);
  };
  uint64_t hash = 0;
  if (comm.rank() == 0) {
    const auto values = [&](const nn::Parameter& p, const auto& take) { stream(places.at(p.name), take); };
    model.Save(path, values);
    hash = nn::HashOf(outline, values);
  } else {
    for (const nn::Parameter* p : nn::SavedOrder(outline)) stream(places.at(p->name), {});
    for (const auto all : {part.parameters(), part.buffers()}) {
      for (const nn::Parameter* p : all) stream(places.at(p->name), {});
    }
  }
  comm.Broadcast(0, std::as_writable_bytes(std::span(&hash, 1)));
  return hash;
}

void CopyPart(const nn::Network& whole, nn::Network& part) {
  const auto copy = [](const auto& from, const auto& to) {
    CHECK_EQ(from.size(), to.size());
    for (size_t i = 0; i < to.size(); ++i) {
      std::copy_n(from[i]->value.data() + to[i]->whole.first, to[i]->value.size(), to[i]->value.data());
      to[i]->MarkChanged();
    }
  };
  for (size_t i = 0; i < part.num_layers(); ++i) {
    // Layer hands out its parameters for writing only; nothing is written to the whole.
    auto& from = const_cast<nn::Layer&>(whole.layer(i));
    copy(from.parameters(), part.layer(i).parameters());
    copy(from.buffers(), part.layer(i).buffers());
  }
  part.MarkChanged();
}

void SaveParts(SafetensorsWriter& writer, const ModelParts* parts) {
  if (parts == nullptr) return;
  std::vector<int64_t> numbers = {parts->ranks()};
  for (int position = 0; position < parts->ranks(); ++position) {
    for (const nn::OutputRange& range : parts->Of(position)) {
      numbers.push_back(range.first);
      numbers.push_back(range.count);
    }
  }
  writer.Add(kParts, std::span<const int64_t>(numbers));
}

std::unique_ptr<ModelParts> LoadParts(const SafetensorsReader& reader) {
  if (!reader.Has(kParts)) return nullptr;
  const std::vector<int64_t> numbers = reader.ReadInts(kParts);
  const size_t ranks = numbers.empty() || numbers[0] < 1 ? 0 : static_cast<size_t>(numbers[0]);
  if (ranks == 0 || (numbers.size() - 1) % (2 * ranks) != 0) {
    Throw<InputError>("'{}': '{}' is no division of a model", reader.path().string(), kParts);
  }
  const size_t layers = (numbers.size() - 1) / (2 * ranks);
  std::vector<std::vector<nn::OutputRange>> by_position(ranks);
  for (size_t i = 1; i < numbers.size(); i += 2) {
    by_position[(i - 1) / (2 * layers)].push_back({static_cast<int>(numbers[i]), static_cast<int>(numbers[i + 1])});
  }
  return std::make_unique<ModelParts>(std::move(by_position));
}

void SaveValues(SafetensorsWriter& writer, const std::string& prefix, const nn::Network& network,
                std::span<const float> values) {
  for (const nn::Parameter* p : network.parameters()) {
    writer.AddView(prefix + p->name, ConstMatrixView(values.data() + p->offset, p->value.rows(), p->value.cols()));
  }
}

void FoldValues(std::span<const SafetensorsReader> ranks, const std::string& prefix, bool mean, nn::Network& network,
                std::span<float> values) {
  const std::vector<FormerRank> former = FormerRanks(ranks, network.num_layers());
  for (size_t i = 0; i < network.num_layers(); ++i) {
    nn::Layer& layer = network.layer(i);
    for (const nn::Parameter* p : layer.parameters()) {
      FoldParameter(former, prefix, mean, *p, i, layer.whole_out_dim(), values.data() + p->offset);
    }
  }
}

void FoldNetwork(std::span<const SafetensorsReader> ranks, const std::string& prefix, bool mean, nn::Network& network) {
  FoldValues(ranks, prefix, mean, network, network.values());
  const std::vector<FormerRank> former = FormerRanks(ranks, network.num_layers());
  for (size_t i = 0; i < network.num_layers(); ++i) {
    nn::Layer& layer = network.layer(i);
    for (nn::Parameter* p : layer.buffers()) {
      FoldParameter(former, prefix, false, *p, i, layer.whole_out_dim(), p->value.data());
      p->MarkChanged();
    }
  }
  network.MarkChanged();
}

}  // namespace antiphon::train
