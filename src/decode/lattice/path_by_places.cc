#include "decode/lattice/path_by_places.h"

#include <vector>

#include "base/check.h"
#include "decode/lattice/lattice_walk.h"

namespace antiphon::decode {
namespace {

double WrongAt(const WordPosteriors& place, int32_t word) { return 1.0 - PosteriorOf(place, word); }

// The best way to a state with the first so many places behind it.
struct Way {
  double wrong = kUnreached;
  double cost = 0.0;
  size_t from = 0;                  // index of the way before
  const LatticeArc* arc = nullptr;  // null: nothing was said at a place, or the start

  bool operator<(const Way& other) const { return wrong != other.wrong ? wrong < other.wrong : cost < other.cost; }
};

class PlaceSearch {
 public:
  PlaceSearch(const Lattice& lattice, const LatticeWeights& weights, std::span<const WordPosteriors> places)
      : lattice_(lattice),
        weights_(weights),
        places_(places),
        columns_(places.size() + 1),
        ways_(lattice.states.size() * columns_) {}

  LatticePath Find() {
    ways_[0].wrong = 0.0;
    for (size_t s = 0; s < lattice_.states.size(); ++s) Leave(s);
    return PathTo(BestEnd());
  }

 private:
  void Offer(size_t to, const Way& way) {
    if (way < ways_[to]) ways_[to] = way;
  }

  // States are in topological order: all ways to this one are known.
  void Leave(size_t s) {
    for (size_t c = 0; c < columns_; ++c) {
      const size_t here = s * columns_ + c;
      const Way way = ways_[here];
      if (way.wrong == kUnreached) continue;
      if (c + 1 < columns_) Offer(here + 1, {way.wrong + WrongAt(places_[c], 0), way.cost, here, nullptr});
      for (const LatticeArc& arc : lattice_.states[s].arcs) {
        const size_t to = static_cast<size_t>(arc.next_state) * columns_ + c;
        const double cost = way.cost + ArcCost(arc, weights_);
        Offer(to, {way.wrong + (arc.word != 0 ? 1.0 : 0.0), cost, here, &arc});
        if (arc.word == 0 || c + 1 == columns_) continue;
        Offer(to + 1, {way.wrong + WrongAt(places_[c], arc.word), cost, here, &arc});
      }
    }
  }

  size_t BestEnd() const {
    Way best;
    size_t end = 0;
    for (size_t s = 0; s < lattice_.states.size(); ++s) {
      if (!lattice_.states[s].is_final) continue;
      const size_t here = s * columns_ + columns_ - 1;
      Way way = ways_[here];
      way.cost += FinalCost(lattice_.states[s], weights_);
      if (way < best) best = way, end = here;
    }
    return end;
  }

  LatticePath PathTo(size_t end) const {
    std::vector<const LatticeArc*> arcs;
    for (size_t at = end; at != 0; at = ways_[at].from) {
      if (ways_[at].arc != nullptr) arcs.push_back(ways_[at].arc);
    }
    LatticePath path;
    for (auto arc = arcs.rbegin(); arc != arcs.rend(); ++arc) AppendArc(lattice_, **arc, path);
    AppendFinal(lattice_, lattice_.states[end / columns_], path);
    return path;
  }

  const Lattice& lattice_;
  LatticeWeights weights_;
  std::span<const WordPosteriors> places_;
  size_t columns_;
  std::vector<Way> ways_;  // [state · columns + places behind]
};

}  // namespace

LatticePath PathByPlaces(const Lattice& lattice, const LatticeWeights& weights,
                         std::span<const WordPosteriors> places) {
  CHECK(!lattice.empty());
  return PlaceSearch(lattice, weights, places).Find();
}

}  // namespace antiphon::decode
