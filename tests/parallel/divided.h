// A whole network's part for one rank, and the whole again from all ranks' parts.
#pragma once

#include <memory>

#include "parallel/model_parts.h"

namespace antiphon::parallel {

/// What `held` names of `whole`, with its values.
inline nn::Network PartOf(nn::Network& whole, const std::vector<nn::OutputRange>& held) {
  nn::Network part(Config::Parse(whole.ToToml(), "whole"), whole.in_dim(), whole.out_dim(), 0,
                   nn::InitialValues::kToBeSet, held);
  for (size_t i = 0; i < whole.num_layers(); ++i) {
    const auto copy = [](std::span<nn::Parameter* const> from, std::span<nn::Parameter* const> to) {
      for (size_t n = 0; n < from.size(); ++n) {
        std::copy_n(from[n]->value.data() + to[n]->whole.first, to[n]->value.size(), to[n]->value.data());
        to[n]->MarkChanged();
      }
    };
    copy(whole.layer(i).parameters(), part.layer(i).parameters());
    copy(whole.layer(i).buffers(), part.layer(i).buffers());
  }
  return part;
}

/// On all ranks. `parts` may be null: `part` is the whole.
inline nn::Network WholeOf(comm::Communicator& comm, const ModelParts* parts, nn::Network& part) {
  if (parts == nullptr) return part.Clone();
  nn::Network whole(Config::Parse(part.ToToml(), "part"), part.in_dim(), part.out_dim(), 0,
                    nn::InitialValues::kToBeSet);
  for (size_t i = 0; i < whole.num_layers(); ++i) {
    for (const bool buffer : {false, true}) {
      const auto all = buffer ? whole.layer(i).buffers() : whole.layer(i).parameters();
      for (size_t n = 0; n < all.size(); ++n) {
        float* at = all[n]->value.data();
        StreamParameter(comm, *parts, part, i, buffer, n,
                        [&](std::span<const float> piece) { at = std::copy(piece.begin(), piece.end(), at); });
        comm.Broadcast(0, std::span(all[n]->value.data(), static_cast<size_t>(all[n]->value.size())));
        all[n]->MarkChanged();
      }
    }
  }
  return whole;
}

}  // namespace antiphon::parallel
