#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "decode/graph/graph_operations.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using EqualArc = fst::StdArc;

constexpr float kCostStep = 1.0F / 1024;

// Costs become whole steps, so that equality is exact.
float Rounded(EqualArc::Weight weight) {
  return std::isfinite(weight.Value()) ? std::round(weight.Value() / kCostStep) * kCostStep : weight.Value();
}

// States with their arcs in one array, hashed by what leaves them. A state that merges into another makes those before
// it look again.
class Merger {
 public:
  explicit Merger(const fst::StdVectorFst& fst) : num_states_(fst.NumStates()) {
    for (int s = 0; s < num_states_; ++s) {
      first_arc_.push_back(arcs_.size());
      finals_.push_back(Rounded(fst.Final(s)));
      for (fst::ArcIterator<fst::StdVectorFst> it(fst, s); !it.Done(); it.Next()) {
        const EqualArc& arc = it.Value();
        arcs_.push_back({arc.ilabel, arc.olabel, Rounded(arc.weight), arc.nextstate});
      }
      merged_into_.push_back(s);
    }
    first_arc_.push_back(arcs_.size());
    next_member_.assign(num_states_, -1);
    last_member_ = merged_into_;
    IndexPredecessors();
    size_t buckets = 1;
    while (buckets < static_cast<size_t>(num_states_)) buckets *= 2;
    bucket_.assign(buckets, -1);
    next_in_bucket_.assign(num_states_, -1);
    hash_.assign(num_states_, 0);
    hashed_.assign(num_states_, false);
  }

  void Run() {
    std::vector<int32_t> todo(num_states_);
    // Later states tend to be nearer to the ends.
    for (int s = 0; s < num_states_; ++s) todo[s] = num_states_ - 1 - s;
    std::vector<bool> waiting(num_states_, true);
    while (!todo.empty()) {
      std::vector<int32_t> next;
      for (const int32_t s : todo) {
        waiting[s] = false;
        if (merged_into_[s] != s || !TryMerge(s)) continue;
        // Those before s, and before all that went into s.
        for (int32_t member = s; member >= 0; member = next_member_[member]) {
          for (size_t i = first_predecessor_[member]; i < first_predecessor_[member + 1]; ++i) {
            const int32_t before = Find(predecessors_[i]);
            if (waiting[before]) continue;
            waiting[before] = true;
            next.push_back(before);
          }
        }
        Join(s, merged_into_[s]);
      }
      todo = std::move(next);
    }
  }

  void Write(int32_t start, fst::StdVectorFst* fst) {
    std::vector<int32_t> id(num_states_, -1);
    fst->DeleteStates();
    for (int s = 0; s < num_states_; ++s) {
      if (merged_into_[s] == s) id[s] = fst->AddState();
    }
    for (int s = 0; s < num_states_; ++s) {
      if (id[s] < 0) continue;
      fst->SetFinal(id[s], finals_[s]);
      fst->ReserveArcs(id[s], first_arc_[s + 1] - first_arc_[s]);
      for (size_t a = first_arc_[s]; a < first_arc_[s + 1]; ++a) {
        fst->AddArc(id[s], EqualArc(arcs_[a].input, arcs_[a].output, arcs_[a].cost, id[Find(arcs_[a].to)]));
      }
    }
    fst->SetStart(id[Find(start)]);
  }

 private:
  struct PlainArc {
    int32_t input, output;
    float cost;
    int32_t to;
    auto Key() const { return std::tuple(input, output, cost, to); }
  };

  void IndexPredecessors() {
    first_predecessor_.assign(num_states_ + 2, 0);
    for (const PlainArc& arc : arcs_) ++first_predecessor_[arc.to + 2];
    for (int s = 0; s < num_states_; ++s) first_predecessor_[s + 2] += first_predecessor_[s + 1];
    predecessors_.resize(arcs_.size());
    for (int s = 0; s < num_states_; ++s) {
      for (size_t a = first_arc_[s]; a < first_arc_[s + 1]; ++a)
        predecessors_[first_predecessor_[arcs_[a].to + 1]++] = s;
    }
  }

  // Appends the members of `from` to those of `to`.
  void Join(int32_t from, int32_t to) {
    next_member_[last_member_[to]] = from;
    last_member_[to] = last_member_[from];
  }

  int32_t Find(int32_t s) {
    while (merged_into_[s] != s) s = merged_into_[s] = merged_into_[merged_into_[s]];
    return s;
  }

  // Puts s under its present hash; true if it went into an equal state.
  bool TryMerge(int32_t s) {
    for (size_t a = first_arc_[s]; a < first_arc_[s + 1]; ++a) arcs_[a].to = Find(arcs_[a].to);
    std::sort(arcs_.begin() + first_arc_[s], arcs_.begin() + first_arc_[s + 1],
              [](const PlainArc& x, const PlainArc& y) { return x.Key() < y.Key(); });
    if (hashed_[s]) Unlink(s);
    hash_[s] = Hash(s);
    int32_t& head = bucket_[hash_[s] & (bucket_.size() - 1)];
    for (int32_t other = head; other >= 0; other = next_in_bucket_[other]) {
      if (hash_[other] == hash_[s] && Equal(s, other)) {
        merged_into_[s] = other;
        hashed_[s] = false;
        return true;
      }
    }
    next_in_bucket_[s] = head;
    head = s;
    hashed_[s] = true;
    return false;
  }

  void Unlink(int32_t s) {
    int32_t* link = &bucket_[hash_[s] & (bucket_.size() - 1)];
    while (*link != s) link = &next_in_bucket_[*link];
    *link = next_in_bucket_[s];
  }

  uint64_t Hash(int32_t s) const {
    uint64_t hash = static_cast<uint64_t>(std::isfinite(finals_[s]) ? std::llround(finals_[s] / kCostStep) + 1 : 0);
    const auto mix = [&](int64_t value) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    };
    for (size_t a = first_arc_[s]; a < first_arc_[s + 1]; ++a) {
      mix(arcs_[a].input);
      mix(arcs_[a].output);
      mix(std::llround(arcs_[a].cost / kCostStep));
      mix(arcs_[a].to);
    }
    return hash;
  }

  bool Equal(int32_t x, int32_t y) const {
    const auto arcs_of = [&](int32_t s) {
      return std::pair(arcs_.begin() + first_arc_[s], arcs_.begin() + first_arc_[s + 1]);
    };
    const auto [x_begin, x_end] = arcs_of(x);
    const auto [y_begin, y_end] = arcs_of(y);
    return finals_[x] == finals_[y] &&
           std::equal(x_begin, x_end, y_begin, y_end, [](const auto& p, const auto& q) { return p.Key() == q.Key(); });
  }

  int32_t num_states_;
  std::vector<PlainArc> arcs_;
  std::vector<size_t> first_arc_;
  std::vector<float> finals_;
  std::vector<int32_t> merged_into_;
  std::vector<int32_t> next_member_, last_member_;  // chains of states that became one
  std::vector<size_t> first_predecessor_;
  std::vector<int32_t> predecessors_;
  std::vector<int32_t> bucket_, next_in_bucket_;
  std::vector<uint64_t> hash_;
  std::vector<bool> hashed_;
};

}  // namespace

void MergeEqualStates(fst::StdVectorFst* fst) {
  fst::Connect(fst);
  if (fst->Start() == fst::kNoStateId) return;
  const int32_t start = fst->Start();
  Merger merger(*fst);
  fst->DeleteStates();
  merger.Run();
  merger.Write(start, fst);
}

}  // namespace antiphon::decode
