#include "g2p/unit_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/log_add.h"

namespace antiphon::g2p {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
// Best paths differ in their cuts too, which the sums take together: some more than are asked for are weighed.
constexpr size_t kMoreCandidates = 8;
// Of the n-best search: longer than any word with a use takes.
constexpr size_t kMostSteps = 1 << 20;

uint64_t Pair(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

// Phone sequences that share their beginnings; 0 is the empty one.
class PhoneSequences {
 public:
  int32_t Extend(int32_t sequence, std::span<const int32_t> phones) {
    for (const int32_t phone : phones) {
      const auto [it, added] = ids_.try_emplace(Pair(sequence, phone), static_cast<int32_t>(steps_.size()));
      if (added) steps_.emplace_back(sequence, phone);
      sequence = it->second;
    }
    return sequence;
  }
  std::vector<int32_t> Phones(int32_t sequence) const {
    std::vector<int32_t> phones;
    for (; sequence != 0; sequence = steps_[static_cast<size_t>(sequence)].first) {
      phones.push_back(steps_[static_cast<size_t>(sequence)].second);
    }
    std::reverse(phones.begin(), phones.end());
    return phones;
  }

 private:
  std::vector<std::pair<int32_t, int32_t>> steps_ = {{-1, -1}};
  std::unordered_map<uint64_t, int32_t> ids_;
};

}  // namespace

// All ways to say one word within the beam.
class PronunciationLattice {
 public:
  PronunciationLattice(const UnitSearch& search, std::span<const int32_t> letters, double beam)
      : search_(search),
        letters_(letters),
        beam_(beam),
        at_(letters.size() + 1),
        best_(letters.size() + 1, kImpossible) {
    FindPieces();
    Expand();
    Finish();
  }

  /// log Σ over all cuts; −∞ if there is none.
  double total() const { return total_; }

  std::vector<std::vector<int32_t>> BestSequences(size_t count) const {
    struct Partial {
      double bound, log_prob;
      int32_t node;  // −1: complete
      int32_t phones;
      bool operator<(const Partial& other) const {
        // Equal ones in a fixed order.
        return std::tie(bound, other.phones, other.node) < std::tie(other.bound, phones, node);
      }
    };
    PhoneSequences sequences;
    std::priority_queue<Partial> waiting;
    std::set<std::pair<int32_t, int32_t>> done;  // the first to come is the best of these
    std::vector<std::vector<int32_t>> found;
    if (nodes_[0].to_go > kImpossible) waiting.push({nodes_[0].to_go, 0.0, 0, 0});
    for (size_t step = 0; !waiting.empty() && found.size() < count && step < kMostSteps; ++step) {
      const Partial now = waiting.top();
      waiting.pop();
      if (!done.emplace(now.node, now.phones).second) continue;
      if (now.node < 0) {
        if (now.phones != 0) found.push_back(sequences.Phones(now.phones));
        continue;
      }
      const Node& node = nodes_[static_cast<size_t>(now.node)];
      if (node.end > kImpossible) waiting.push({now.log_prob + node.end, now.log_prob + node.end, -1, now.phones});
      for (int32_t a = node.first_arc; a < node.end_arc; ++a) {
        const Arc& arc = arcs_[static_cast<size_t>(a)];
        const double log_prob = now.log_prob + arc.log_prob;
        const double bound = log_prob + nodes_[static_cast<size_t>(arc.to)].to_go;
        if (bound == kImpossible) continue;
        const Unit& unit = search_.units_[static_cast<size_t>(arc.unit)];
        waiting.push({bound, log_prob, arc.to, sequences.Extend(now.phones, unit.phones)});
      }
    }
    return found;
  }

  /// log Σ over the cuts with these phones.
  double SumOf(const std::vector<int32_t>& phones) const {
    // By node, and number of phones said.
    std::vector<std::vector<double>> said(nodes_.size());
    said[0].assign(phones.size() + 1, kImpossible);
    said[0][0] = 0.0;
    double sum = kImpossible;
    for (const std::vector<int32_t>& here : at_) {
      for (const int32_t id : here) {
        const auto from = static_cast<size_t>(id);
        if (said[from].empty()) continue;
        sum = LogAdd(sum, said[from].back() + nodes_[from].end);
        for (int32_t a = nodes_[from].first_arc; a < nodes_[from].end_arc; ++a) {
          const Arc& arc = arcs_[static_cast<size_t>(a)];
          Say(search_.units_[static_cast<size_t>(arc.unit)].phones, phones, said[from], arc.log_prob,
              said[static_cast<size_t>(arc.to)]);
        }
      }
    }
    return sum;
  }

 private:
  struct Arc {
    int32_t unit;
    int32_t to;
    float log_prob;
  };
  struct Node {
    int32_t state;
    double forward = kImpossible;  // log Σ of all ways to here
    double end = kImpossible;      // log p of ending here
    double to_go = kImpossible;    // log p of the best way from here to the end
    int32_t first_arc = 0, end_arc = 0;
  };

  static void Say(const std::vector<int32_t>& unit, const std::vector<int32_t>& phones, const std::vector<double>& from,
                  double log_prob, std::vector<double>& to) {
    for (size_t n = 0; n + unit.size() <= phones.size(); ++n) {
      if (from[n] == kImpossible ||
          !std::equal(unit.begin(), unit.end(), phones.begin() + static_cast<std::ptrdiff_t>(n))) {
        continue;
      }
      if (to.empty()) to.assign(phones.size() + 1, kImpossible);
      to[n + unit.size()] = LogAdd(to[n + unit.size()], from[n] + log_prob);
    }
  }

  // Which letters of units begin where, by place and length; −1: none.
  void FindPieces() {
    for (size_t i = 0; i < letters_.size(); ++i) {
      for (size_t n = 1; n <= search_.max_letters_; ++n) {
        int32_t piece = -1;
        if (i + n <= letters_.size()) {
          const auto it = search_.pieces_.find({letters_.begin() + static_cast<std::ptrdiff_t>(i),
                                                letters_.begin() + static_cast<std::ptrdiff_t>(i + n)});
          if (it != search_.pieces_.end()) piece = it->second;
        }
        piece_at_.push_back(piece);
      }
    }
  }

  int32_t NodeOf(size_t place, int32_t state) {
    const auto [it, added] =
        ids_.try_emplace(Pair(static_cast<int32_t>(place), state), static_cast<int32_t>(nodes_.size()));
    if (added) {
      nodes_.push_back({state});
      at_[place].push_back(it->second);
    }
    return it->second;
  }

  void Expand() {
    nodes_.reserve(256);
    nodes_[static_cast<size_t>(NodeOf(0, search_.ngram_.start()))].forward = 0.0;
    best_[0] = 0.0;
    listed_.assign(search_.units_.size(), -1);
    for (size_t place = 0; place < letters_.size(); ++place) {
      // The best first, so that what they reach limits the others.
      std::vector<int32_t>& here = at_[place];
      std::sort(here.begin(), here.end(), [&](int32_t a, int32_t b) {
        return std::pair(-nodes_[static_cast<size_t>(a)].forward, a) <
               std::pair(-nodes_[static_cast<size_t>(b)].forward, b);
      });
      for (size_t k = 0; k < here.size(); ++k) {
        if (nodes_[static_cast<size_t>(here[k])].forward < best_[place] - beam_) break;
        ExpandNode(place, here[k]);
      }
    }
  }

  void ExpandNode(size_t place, int32_t id) {
    const int32_t* const pieces = &piece_at_[place * search_.max_letters_];
    const UnitNgram& ngram = search_.ngram_;
    nodes_[static_cast<size_t>(id)].first_arc = static_cast<int32_t>(arcs_.size());
    double weight = 0.0;
    const auto visit = [&](int32_t unit, float log_prob, int32_t state) {
      const int32_t piece = search_.piece_of_unit_[static_cast<size_t>(unit)];
      const size_t length = search_.units_[static_cast<size_t>(unit)].letters.size();
      if (pieces[length - 1] != piece || listed_[static_cast<size_t>(unit)] == id) return;
      listed_[static_cast<size_t>(unit)] = id;
      AddArc(id, place + length, unit, weight + log_prob, state);
    };
    for (int32_t state = nodes_[static_cast<size_t>(id)].state; state != UnitNgram::kRoot;) {
      ngram.ForEachListed(state, visit);
      const UnitNgram::Step shorter = ngram.Shorter(state);
      weight += shorter.log_prob;
      state = shorter.state;
    }
    for (size_t n = 0; n < search_.max_letters_; ++n) {
      if (pieces[n] < 0) continue;
      for (const int32_t unit : search_.units_of_piece_[static_cast<size_t>(pieces[n])]) {
        const UnitNgram::Step step = ngram.Next(UnitNgram::kRoot, unit);
        visit(unit, step.log_prob, step.state);
      }
    }
    nodes_[static_cast<size_t>(id)].end_arc = static_cast<int32_t>(arcs_.size());
  }

  void AddArc(int32_t from, size_t place, int32_t unit, double log_prob, int32_t state) {
    const double forward = nodes_[static_cast<size_t>(from)].forward + log_prob;
    if (forward < best_[place] - beam_) return;
    const int32_t to = NodeOf(place, state);
    Node& node = nodes_[static_cast<size_t>(to)];
    node.forward = LogAdd(node.forward, forward);
    best_[place] = std::max(best_[place], node.forward);
    arcs_.push_back({unit, to, static_cast<float>(log_prob)});
  }

  // Ends, sums and costs to go.
  void Finish() {
    for (const int32_t id : at_.back()) {
      Node& node = nodes_[static_cast<size_t>(id)];
      node.end = search_.ngram_.End(node.state);
      node.to_go = node.end;
      total_ = LogAdd(total_, node.forward + node.end);
    }
    for (size_t place = letters_.size(); place-- > 0;) {
      for (const int32_t id : at_[place]) {
        Node& node = nodes_[static_cast<size_t>(id)];
        for (int32_t a = node.first_arc; a < node.end_arc; ++a) {
          const Arc& arc = arcs_[static_cast<size_t>(a)];
          node.to_go = std::max(node.to_go, arc.log_prob + nodes_[static_cast<size_t>(arc.to)].to_go);
        }
      }
    }
  }

  const UnitSearch& search_;
  std::span<const int32_t> letters_;
  double beam_;
  std::vector<int32_t> piece_at_;  // by place and length
  std::vector<Node> nodes_;
  std::vector<Arc> arcs_;                 // node after node
  std::vector<std::vector<int32_t>> at_;  // nodes by letters said
  std::vector<double> best_;              // forward, by letters said
  std::unordered_map<uint64_t, int32_t> ids_;
  std::vector<int32_t> listed_;  // by unit: the last node that has it
  double total_ = kImpossible;
};

UnitSearch::UnitSearch(const std::vector<Unit>& units, const UnitNgram& ngram) : units_(units), ngram_(ngram) {
  for (const Unit& unit : units) {
    max_letters_ = std::max(max_letters_, unit.letters.size());
    const auto [it, added] = pieces_.try_emplace(unit.letters, static_cast<int32_t>(units_of_piece_.size()));
    if (added) units_of_piece_.emplace_back();
    units_of_piece_[static_cast<size_t>(it->second)].push_back(static_cast<int32_t>(piece_of_unit_.size()));
    piece_of_unit_.push_back(it->second);
  }
}

std::vector<FoundPronunciation> UnitSearch::Find(std::span<const int32_t> letters, int nbest, double beam) const {
  std::vector<FoundPronunciation> found;
  if (letters.empty()) return found;
  const PronunciationLattice lattice(*this, letters, beam);
  if (lattice.total() == kImpossible) return found;
  const double silent = lattice.SumOf({});
  // What is left of the sum without the empty pronunciation.
  const double total = silent == kImpossible
                           ? lattice.total()
                           : lattice.total() + std::log1p(-std::exp(std::min(silent - lattice.total(), -1e-12)));
  for (std::vector<int32_t>& phones : lattice.BestSequences(static_cast<size_t>(nbest) + kMoreCandidates)) {
    const double sum = lattice.SumOf(phones);
    found.push_back({std::move(phones), std::min(1.0, std::exp(sum - total))});
  }
  std::stable_sort(found.begin(), found.end(), [](const FoundPronunciation& a, const FoundPronunciation& b) {
    return a.probability > b.probability;
  });
  if (found.size() > static_cast<size_t>(nbest)) found.resize(static_cast<size_t>(nbest));
  return found;
}

}  // namespace antiphon::g2p
