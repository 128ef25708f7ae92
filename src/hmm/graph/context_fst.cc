#include "hmm/graph/context_fst.h"

#include <map>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using Arc = fst::StdArc;

// Output states are (state of the input, left phone, current phone); the current phone waits for its right neighbour.
// Without right context nothing waits: the left phone alone is kept.
class Expander {
 public:
  Expander(const fst::StdVectorFst& in, int width, std::span<const int32_t> disambiguation, fst::StdVectorFst* out,
           std::vector<ContextLabel>* labels)
      : in_(in),
        width_(width),
        disambiguation_(disambiguation.begin(), disambiguation.end()),
        out_(*out),
        labels_(*labels) {
    out_.DeleteStates();
    labels_.assign(1, {});
  }

  void Run() {
    if (in_.Start() == fst::kNoStateId) return;
    out_.SetStart(StateOf({in_.Start(), 0, 0}));
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].state >= 0) Expand(open_[i], static_cast<int>(i));
    }
  }

 private:
  struct Place {
    int state;
    int32_t left;
    int32_t current;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    size_t operator()(const Place& p) const {
      uint64_t h = static_cast<uint64_t>(p.state) * 0x9E3779B97F4A7C15ULL;
      h ^= (static_cast<uint64_t>(p.left) << 32 | static_cast<uint32_t>(p.current)) * 0xC2B2AE3D27D4EB4FULL;
      return h ^ (h >> 29);
    }
  };

  int StateOf(const Place& place) {
    const auto [it, added] = ids_.emplace(place, static_cast<int>(open_.size()));
    if (added) {
      open_.push_back(place);
      out_.AddState();
    }
    return it->second;
  }

  int32_t LabelOf(ContextLabel label) {
    const auto [it, added] = label_ids_.emplace(std::move(label), static_cast<int32_t>(labels_.size()));
    if (added) labels_.push_back(it->first);
    return it->second;
  }

  void Expand(const Place place, int from) {
    const bool waiting = place.current != 0;
    const Arc::Weight final = in_.Final(place.state);
    if (final != Arc::Weight::Zero()) {
      if (!waiting) {
        out_.SetFinal(from, final);
      } else {
        const int32_t label = LabelOf({{place.left, place.current, 0}, 0});
        out_.AddArc(from, Arc(label, 0, final, End()));
      }
    }
    for (fst::ArcIterator<fst::StdVectorFst> it(in_, place.state); !it.Done(); it.Next()) {
      const Arc& arc = it.Value();
      if (arc.ilabel == 0 || disambiguation_.contains(arc.ilabel)) {
        const int32_t label = arc.ilabel == 0 ? 0 : LabelOf({{}, arc.ilabel});
        out_.AddArc(from, Arc(label, arc.olabel, arc.weight, StateOf({arc.nextstate, place.left, place.current})));
      } else if (width_ == 1) {
        out_.AddArc(from, Arc(LabelOf({{arc.ilabel}, 0}), arc.olabel, arc.weight, StateOf({arc.nextstate, 0, 0})));
      } else if (width_ == 2) {
        const int32_t label = LabelOf({{place.left, arc.ilabel}, 0});
        out_.AddArc(from, Arc(label, arc.olabel, arc.weight, StateOf({arc.nextstate, arc.ilabel, 0})));
      } else {
        const int32_t label = waiting ? LabelOf({{place.left, place.current, arc.ilabel}, 0}) : 0;
        out_.AddArc(from, Arc(label, arc.olabel, arc.weight, StateOf({arc.nextstate, place.current, arc.ilabel})));
      }
    }
  }

  int End() {
    if (end_ < 0) {
      end_ = StateOf({-1, 0, 0});
      out_.SetFinal(end_, Arc::Weight::One());
    }
    return end_;
  }

  const fst::StdVectorFst& in_;
  int width_;
  std::set<int32_t> disambiguation_;
  fst::StdVectorFst& out_;
  std::vector<ContextLabel>& labels_;
  std::vector<Place> open_;
  std::unordered_map<Place, int, Hash> ids_;
  std::map<ContextLabel, int32_t> label_ids_;
  int end_ = -1;
};

}  // namespace

void ExpandContext(const fst::StdVectorFst& in, int width, std::span<const int32_t> disambiguation,
                   fst::StdVectorFst* out, std::vector<ContextLabel>* labels) {
  CHECK(width >= 1 && width <= 3) << width;
  Expander(in, width, disambiguation, out, labels).Run();
}

void MergeEquivalentLabels(const HmmModel& model, fst::StdVectorFst* fst, std::vector<ContextLabel>* labels) {
  std::map<std::vector<int32_t>, int32_t> label_of_states;  // phone and its pdf-ids → new label
  std::vector<ContextLabel> kept(1);
  std::vector<int32_t> new_label(labels->size(), 0);
  for (size_t i = 1; i < labels->size(); ++i) {
    const ContextLabel& label = (*labels)[i];
    std::vector<int32_t> key = {-label.disambiguation};
    if (!label.window.empty()) {
      const int32_t phone = label.window[static_cast<size_t>(model.tree().central())];
      key = {phone};
      for (int c = 0; c < model.topology().NumPdfClasses(phone); ++c) key.push_back(model.tree().Pdf(label.window, c));
    }
    const auto [it, added] = label_of_states.emplace(std::move(key), static_cast<int32_t>(kept.size()));
    if (added) kept.push_back(label);
    new_label[i] = it->second;
  }
  for (int state = 0; state < fst->NumStates(); ++state) {
    for (fst::MutableArcIterator<fst::StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
      Arc arc = it.Value();
      arc.ilabel = new_label[static_cast<size_t>(arc.ilabel)];
      it.SetValue(arc);
    }
  }
  *labels = std::move(kept);
}

}  // namespace antiphon::hmm
