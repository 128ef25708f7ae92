#include "parallel/model_parts.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {
namespace {

constexpr int kRequestTag = 1 << 24;
constexpr int kPieceTag = kRequestTag + 1;
constexpr int64_t kPieceValues = 1 << 20;

// Who holds values [first, first + count) of a whole parameter.
struct Piece {
  int position;
  ValueRange values;
};

std::vector<Piece> PiecesOf(const ModelParts& parts, const nn::Parameter& p, int out_dim, size_t layer) {
  std::vector<Piece> held;
  for (int position = 0; position < parts.ranks(); ++position) {
    const ValueRange values = ValuesOf(p, out_dim, parts.Of(position)[layer]);
    if (values.count > 0) held.push_back({position, values});
  }
  std::stable_sort(held.begin(), held.end(),
                   [](const Piece& a, const Piece& b) { return a.values.first < b.values.first; });
  std::vector<Piece> pieces;
  int64_t at = 0;
  for (const Piece& piece : held) {
    if (piece.values.first < at) continue;  // a layer that all hold
    CHECK_EQ(piece.values.first, at) << p.name;
    for (int64_t done = 0; done < piece.values.count; done += kPieceValues) {
      pieces.push_back({piece.position, {at + done, std::min(kPieceValues, piece.values.count - done)}});
    }
    at += piece.values.count;
  }
  CHECK_EQ(at, p.whole.size()) << p.name;
  return pieces;
}

}  // namespace

nn::OutputRange EvenRange(int out_dim, int part, int parts) {
  const auto first = static_cast<int>(int64_t{out_dim} * part / parts);
  const auto end = static_cast<int>(int64_t{out_dim} * (part + 1) / parts);
  return {first, end - first};
}

ValueRange ValuesOf(const nn::Parameter& p, int out_dim, nn::OutputRange range) {
  if (range.all()) return {0, p.whole.size()};
  if (range.count == 0) return {};
  const int64_t width = p.whole.size() / out_dim;
  return {range.first * width, range.count * width};
}

void StreamParameter(comm::Communicator& comm, const ModelParts& parts, nn::Network& network, size_t layer, bool buffer,
                     size_t number, const std::function<void(std::span<const float>)>& take) {
  if (comm.rank() >= parts.ranks()) return;
  nn::Layer& owner = network.layer(layer);
  const nn::Parameter& p = *(buffer ? owner.buffers() : owner.parameters())[number];
  std::vector<float> received;
  for (const Piece& piece : PiecesOf(parts, p, owner.whole_out_dim(), layer)) {
    const bool mine = piece.position == comm.rank();
    const auto here = [&] {
      return std::span<const float>(p.value.data() + (piece.values.first - p.whole.first),
                                    static_cast<size_t>(piece.values.count));
    };
    if (comm.rank() == 0 && mine) {
      take(here());
    } else if (comm.rank() == 0) {
      // Asked for one by one, so that no more than one is under way.
      comm.Send(piece.position, kRequestTag, {});
      const comm::Message message = comm.Receive(piece.position, kPieceTag);
      received.resize(static_cast<size_t>(piece.values.count));
      CHECK_EQ(message.bytes.size(), received.size() * sizeof(float)) << p.name;
      std::memcpy(received.data(), message.bytes.data(), message.bytes.size());
      take(received);
    } else if (mine) {
      comm.Receive(0, kRequestTag);
      comm.Send(0, kPieceTag, std::as_bytes(here()));
    }
  }
}

std::unique_ptr<ModelParts> DivideModel(const Config& parallel, nn::Network& outline, comm::Communicator& comm) {
  const std::string method = MethodOf(parallel);
  if (!DivisionRegistry::Get().Has(method)) return nullptr;
  return DivisionRegistry::Get().Create(method, DivisionTask{&parallel, &outline, &comm});
}

}  // namespace antiphon::parallel
