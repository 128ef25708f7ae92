#include "parallel/striped_network.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace antiphon::parallel {
namespace {

// Which weights of a stripe (rows first … first + rows) a rank may use: those from inputs that its own rank computed,
// and `links` drawn ones of each other rank's.
std::vector<uint8_t> DrawMask(const AffineStripe& stripe, int64_t in_dim, const RankGroup& group, int links,
                              uint64_t seed) {
  std::vector<uint8_t> mask(static_cast<size_t>(stripe.rows() * in_dim), 0);
  for (int64_t r = 0; r < stripe.rows(); ++r) {
    Rng rng(seed, static_cast<uint64_t>(stripe.first_row() + r));
    uint8_t* row = mask.data() + r * in_dim;
    for (int part = 0; part < group.size(); ++part) {
      const int64_t first = AffineStripe::FirstRow(in_dim, part, group.size());
      const int64_t width = AffineStripe::FirstRow(in_dim, part + 1, group.size()) - first;
      if (part == group.index() || width <= links) {
        std::fill_n(row + first, width, uint8_t{1});
        continue;
      }
      for (int drawn = 0; drawn < links;) {
        uint8_t& weight = row[first + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(width)))];
        drawn += weight == 0 ? 1 : 0;
        weight = 1;
      }
    }
  }
  return mask;
}

}  // namespace

StripedNetwork::StripedNetwork(nn::Network& whole, RankGroup& group, const Config& optimizer, int links, uint64_t seed)
    : whole_(whole),
      group_(group),
      cost_(whole),
      by_layer_(whole.num_layers(), nullptr),
      stripe_workspaces_(whole.num_layers()) {
  bool hidden = false;
  for (size_t i = 0; i < whole.num_layers(); ++i) {
    const bool affine = whole.layer_type(i) == "affine" || whole.layer_type(i) == "linear";
    if (!affine || whole.layer(i).out_dim() < group.size()) continue;
    stripes_.push_back(std::make_unique<AffineStripe>(whole, i, group.index(), group.size(), optimizer));
    by_layer_[i] = stripes_.back().get();
    // The input layer's inputs belong to nobody.
    const bool masked = links >= 0 && hidden && group.size() > 1;
    masks_.push_back(masked ? DrawMask(*stripes_.back(), whole.layer(i).in_dim(), group, links, MixSeed(seed, i))
                            : std::vector<uint8_t>());
    hidden = true;
  }
  ApplyMasks();
}

MatrixView StripedNetwork::Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) {
  ConstMatrixView below = x;
  MatrixView y;
  for (size_t i = 0; i < whole_.num_layers(); ++i) {
    y = ws.Float(i, x.rows(), whole_.layer(i).out_dim());
    if (AffineStripe* stripe = StripeOf(i); stripe != nullptr) {
      const MatrixView mine = stripe->network().Forward(context, below, stripe_workspaces_[i]);
      Count(i, cost_.forward_flops(i), x.rows());
      message_.assign(mine.data(), mine.data() + mine.size());
      const auto all = group_.Exchange(message_);
      for (int part = 0; part < group_.size(); ++part) {
        const int64_t first = AffineStripe::FirstRow(y.cols(), part, group_.size());
        const int64_t width = AffineStripe::FirstRow(y.cols(), part + 1, group_.size()) - first;
        const std::vector<float>& theirs = all[static_cast<size_t>(part)];
        CHECK_EQ(std::ssize(theirs), x.rows() * width);
        for (int64_t n = 0; n < x.rows(); ++n) {
          std::copy_n(theirs.data() + n * width, width, y.Row(n).data() + first);
        }
      }
    } else {
      whole_.layer(i).Forward(context, below, y, ws.Child(i));
      Count(i, cost_.forward_flops(i), x.rows());
    }
    below = y;
  }
  // The caller may overwrite what he gets, but a layer may need its output again.
  const MatrixView copy = ws.Float(whole_.num_layers(), y.rows(), y.cols());
  std::copy_n(y.data(), y.size(), copy.data());
  return copy;
}

void StripedNetwork::Backward(const nn::ExecContext& context, ConstMatrixView dy, nn::Workspace& ws,
                              const std::function<nn::GradientSink&(size_t stripe)>& stripe_sink,
                              nn::GradientSink& common) {
  ConstMatrixView g = dy;
  size_t stripe_index = stripes_.size();
  size_t turn = 0;
  const size_t first_buffer = whole_.num_layers() + 1;
  for (size_t i = whole_.num_layers(); i-- > 0;) {
    nn::Layer& layer = whole_.layer(i);
    const MatrixView dx = ws.Float(first_buffer + turn, dy.rows(), layer.in_dim());
    turn = 1 - turn;
    if (AffineStripe* stripe = StripeOf(i); stripe != nullptr) {
      --stripe_index;
      const ConstMatrixView mine = g.Cols(stripe->first_row(), stripe->rows());
      nn::Network& network = stripe->network();
      const bool want_dx = i > 0;
      const MatrixView part = network.Backward(context, mine, network.all_layers(), stripe_workspaces_[i],
                                               stripe_sink(stripe_index), want_dx);
      Count(i, cost_.backward_flops(i), dy.rows());
      if (want_dx) {
        for (int64_t n = 0; n < part.rows(); ++n) std::copy_n(part.Row(n).data(), part.cols(), dx.Row(n).data());
        group_.AllReduce(std::span(dx.data(), static_cast<size_t>(dx.size())));
      }
    } else {
      layer.Backward(context, g, ws.Child(i), i > 0 ? dx : MatrixView(), common);
      Count(i, cost_.backward_flops(i), dy.rows());
    }
    g = dx;
  }
}

void StripedNetwork::Count(size_t layer, double flops_per_frame, int64_t frames) const {
  const double flops = flops_per_frame * static_cast<double>(frames) / (is_striped(layer) ? group_.size() : 1);
  if (flops > 0) group_.comm().ComputeFlops(flops);
}

void StripedNetwork::ApplyMasks() {
  for (size_t s = 0; s < stripes_.size(); ++s) {
    if (masks_[s].empty()) continue;
    nn::Parameter& weight = *stripes_[s]->network().parameters()[0];
    float* values = weight.value.data();
    for (size_t i = 0; i < masks_[s].size(); ++i) {
      if (masks_[s][i] == 0) values[i] = 0;
    }
    weight.MarkChanged();
  }
}

void StripedNetwork::Share(std::span<float> values) {
  for (const auto& stripe : stripes_) ShareStripes(whole_, stripe->layer(), group_, values);
}

int64_t StripedNetwork::num_own_parameters() const {
  int64_t count = 0;
  for (size_t i = 0; i < whole_.num_layers(); ++i) {
    if (AffineStripe* stripe = StripeOf(i); stripe != nullptr) {
      count += stripe->network().num_parameters();
      continue;
    }
    for (const nn::Parameter* p : whole_.layer(i).parameters()) count += p->value.size();
  }
  return count;
}

}  // namespace antiphon::parallel
