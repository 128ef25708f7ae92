#include "chain/numerator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::chain {

ContextPdfs::ContextPdfs(const hmm::HmmModel& model) : num_(static_cast<size_t>(model.phones().num_phones()) + 1) {
  RequireChainModel(model);
  pdfs_.assign(num_ * num_, {-1, -1});
  for (int32_t phone = 1; phone < static_cast<int32_t>(num_); ++phone) {
    for (int32_t left = 0; left < static_cast<int32_t>(num_); ++left) {
      const int32_t context[3] = {left, phone, 0};
      const std::span<const int32_t> window = model.Window(context);
      pdfs_[Index(left, phone)] = {model.tree().Pdf(window, 0), model.tree().Pdf(window, 1)};
    }
  }
}

class Numerator::Builder {
 public:
  Builder(const DenominatorGraph& denominator, const ContextPdfs& pdfs, const Reference& reference,
          const ChunkTimes& chunk, const NumeratorOptions& options, Numerator* out)
      : denominator_(denominator), pdfs_(pdfs), phones_(reference.phones), out_(*out) {
    const int last_frame = chunk.first_frame + (chunk.num_outputs - 1) * options.step;
    if (chunk.num_outputs < 1 || chunk.first_frame < 0 || last_frame >= reference.num_frames()) {
      out_.problem_ = fmt::format("{} outputs from frame {} on do not lie in its {} frames", chunk.num_outputs,
                                  chunk.first_frame, reference.num_frames());
      return;
    }
    first_output_ = chunk.first_frame / options.step;
    if (!FindWindows(reference, chunk.first_frame % options.step, options)) {
      out_.problem_ =
          fmt::format("{} phones are too close together for an output every {} frames", phones_.size(), options.step);
      return;
    }
    Build(chunk.num_outputs);
  }

 private:
  // Boundary i, in front of phone i, lies in front of one of the outputs earliest_[i] … latest_[i]; each of these is
  // part of a way to place all boundaries.
  bool FindWindows(const Reference& reference, int shift, const NumeratorOptions& options) {
    const int outputs = NumOutputs(reference.num_frames(), shift, options.step);
    const size_t n = phones_.size();
    earliest_.assign(n + 1, 0);
    latest_.assign(n + 1, 0);
    earliest_[n] = latest_[n] = outputs;
    for (size_t i = 1; i < n; ++i) {
      earliest_[i] = OutputBehind(reference.ends[i - 1] - options.tolerance, shift, options.step);
      latest_[i] = OutputBehind(reference.ends[i - 1] + options.tolerance, shift, options.step);
    }
    for (size_t i = 1; i <= n; ++i) earliest_[i] = std::max(earliest_[i], earliest_[i - 1] + 1);
    for (size_t i = n; i-- > 0;) latest_[i] = std::min(latest_[i], latest_[i + 1] - 1);
    for (size_t i = 0; i <= n; ++i) {
      if (earliest_[i] > latest_[i]) return false;
    }
    return true;
  }

  bool MayEnter(size_t phone, int output) const { return earliest_[phone] <= output && output <= latest_[phone]; }
  // Having been in the phone at the output before.
  bool MayStay(size_t phone, int output) const { return earliest_[phone] < output && output < latest_[phone + 1]; }
  // Before the beginning: 0.
  int32_t PhoneAt(size_t phone, int before) const {
    return phone < static_cast<size_t>(before) ? 0 : phones_[phone - static_cast<size_t>(before)];
  }

  void Build(int num_outputs) {
    out_.first_arc_.push_back(0);
    Begin();
    EndOutput();
    for (int k = 1; k < num_outputs && out_.problem_.empty(); ++k) {
      const std::vector<Node> before = std::move(nodes_);
      nodes_.clear();
      ids_.clear();
      for (size_t i = 0; i < before.size(); ++i) Follow(before[i], static_cast<int32_t>(i), first_output_ + k);
      EndOutput();
    }
    // Initial probabilities are 0 in states that no walk reaches in the frames that they are an average over.
    if (out_.problem_.empty() && some_impossible_ && !HasPossiblePath()) {
      out_.problem_ = "no walk through the denominator graph is, in its first hundred frames, where it begins";
    }
  }

  bool HasPossiblePath() const {
    std::vector<char> before, here;
    for (size_t k = 0; k < out_.num_nodes_.size(); ++k) {
      here.assign(static_cast<size_t>(out_.num_nodes_[k]), 0);
      for (size_t a = out_.first_arc_[k]; a < out_.first_arc_[k + 1]; ++a) {
        const Arc& arc = out_.arcs_[a];
        const bool reached = arc.from < 0 || before[static_cast<size_t>(arc.from)] != 0;
        if (reached && arc.probability > 0) here[static_cast<size_t>(arc.to)] = 1;
      }
      std::swap(before, here);
    }
    return std::ranges::find(before, 1) != before.end();
  }

  // A path of the denominator may stand for several places in the reference at once (where a phone is said twice); it
  // must count once. A node is therefore a state of the denominator with all places that it may stand for.
  struct Places {
    size_t first = 0;
    uint64_t mask = 0;  // bit b: phone first + b; bit 0 is set

    void Add(size_t phone) {  // ascending
      if (mask == 0) first = phone;
      CHECK_LT(phone - first, 64U);
      mask |= uint64_t{1} << (phone - first);
    }
    template <class Visit>
    void ForEach(const Visit& visit) const {
      for (uint64_t left = mask; left != 0; left &= left - 1) {
        visit(first + static_cast<size_t>(std::countr_zero(left)));
      }
    }
    auto operator<=>(const Places&) const = default;
  };
  struct Node {
    Places places;
    int32_t state = 0;
    auto operator<=>(const Node&) const = default;
  };

  void Begin() {
    using Inside = std::pair<int32_t, int32_t>;  // phone and loop pdf-id
    std::map<Inside, Places> staying;
    std::map<std::pair<Inside, int32_t>, Places> entering;
    for (size_t i = 0; i < phones_.size() && earliest_[i] <= first_output_; ++i) {
      const int32_t left = PhoneAt(i, 1);
      if (MayStay(i, first_output_)) staying[{phones_[i], pdfs_.Loop(left, phones_[i])}].Add(i);
      if (!MayEnter(i, first_output_)) continue;
      entering[{{left, pdfs_.Loop(PhoneAt(i, 2), left)}, phones_[i]}].Add(i);
    }
    const std::span<const DenominatorGraph::State> states = denominator_.states();
    for (const auto& [inside, places] : staying) {
      for (const int32_t state : denominator_.StatesOf(inside.first, inside.second)) {
        AddArc(-1, {places, state}, inside.second, states[static_cast<size_t>(state)].initial);
      }
    }
    for (const auto& [key, places] : entering) {
      for (const int32_t state : denominator_.StatesOf(key.first.first, key.first.second)) {
        const DenominatorGraph::Arc* arc = denominator_.Entering(state, key.second);
        if (arc == nullptr) continue;
        AddArc(-1, {places, arc->to}, arc->pdf_id, states[static_cast<size_t>(state)].initial * arc->probability);
      }
    }
  }

  void Follow(const Node& node, int32_t index, int output) {
    Places staying;
    std::array<std::pair<int32_t, Places>, 64> entering;  // by phone
    size_t num_entering = 0;
    node.places.ForEach([&](size_t phone) {
      if (MayStay(phone, output)) staying.Add(phone);
      const size_t next = phone + 1;
      if (next >= phones_.size() || !MayEnter(next, output)) return;
      size_t e = 0;
      while (e < num_entering && entering[e].first != phones_[next]) ++e;
      if (e == num_entering) entering[num_entering++] = {phones_[next], {}};
      entering[e].second.Add(next);
    });
    if (staying.mask != 0) {
      AddArc(index, {staying, node.state}, denominator_.states()[static_cast<size_t>(node.state)].loop_pdf, 1.0F);
    }
    for (size_t e = 0; e < num_entering; ++e) {
      const DenominatorGraph::Arc* arc = denominator_.Entering(node.state, entering[e].first);
      if (arc != nullptr) AddArc(index, {entering[e].second, arc->to}, arc->pdf_id, arc->probability);
    }
  }

  void AddArc(int32_t from, const Node& node, int32_t pdf_id, float probability) {
    some_impossible_ = some_impossible_ || probability == 0;
    const auto [it, added] = ids_.emplace(node, static_cast<int32_t>(nodes_.size()));
    if (added) nodes_.push_back(node);
    out_.arcs_.push_back({from, it->second, pdf_id, probability});
  }

  void EndOutput() {
    if (nodes_.empty()) {
      out_.problem_ = "its phones follow one another as nowhere in the speech that the denominator graph was made of";
    }
    out_.first_arc_.push_back(out_.arcs_.size());
    out_.num_nodes_.push_back(static_cast<int32_t>(nodes_.size()));
  }

  const DenominatorGraph& denominator_;
  const ContextPdfs& pdfs_;
  const std::vector<int32_t>& phones_;
  Numerator& out_;
  int first_output_ = 0;
  bool some_impossible_ = false;   // an arc has probability 0
  std::vector<int32_t> earliest_;  // by phone, and the end
  std::vector<int32_t> latest_;
  std::vector<Node> nodes_;  // of the current output
  std::map<Node, int32_t> ids_;
};

Numerator::Numerator(const DenominatorGraph& denominator, const ContextPdfs& pdfs, const Reference& reference,
                     const ChunkTimes& chunk, const NumeratorOptions& options) {
  Builder(denominator, pdfs, reference, chunk, options, this);
}

double Numerator::ForwardBackward(const std::function<double(int, int32_t)>& score,
                                  std::vector<Occupancy>* occupancies) const {
  CHECK(problem_.empty()) << problem_;
  const size_t outputs = num_nodes_.size();
  std::vector<double> weights(arcs_.size());  // Π with the emission, over the output's sum
  std::vector<std::vector<double>> alpha(outputs);
  double log_sum = 0;
  for (size_t k = 0; k < outputs; ++k) {
    alpha[k].assign(static_cast<size_t>(num_nodes_[k]), 0.0);
    double sum = 0;
    for (size_t a = first_arc_[k]; a < first_arc_[k + 1]; ++a) {
      const Arc& arc = arcs_[a];
      const double before = arc.from < 0 ? 1.0 : alpha[k - 1][static_cast<size_t>(arc.from)];
      weights[a] = static_cast<double>(arc.probability) * std::exp(score(static_cast<int>(k), arc.pdf_id));
      alpha[k][static_cast<size_t>(arc.to)] += before * weights[a];
      sum += before * weights[a];
    }
    log_sum += std::log(sum);
    for (double& v : alpha[k]) v /= sum;
    for (size_t a = first_arc_[k]; a < first_arc_[k + 1]; ++a) weights[a] /= sum;
  }
  occupancies->clear();
  std::vector<double> behind(alpha.back().size(), 1.0), here;
  for (size_t k = outputs; k-- > 0;) {
    here.assign(k > 0 ? alpha[k - 1].size() : 1, 0.0);
    const size_t first = occupancies->size();
    for (size_t a = first_arc_[k]; a < first_arc_[k + 1]; ++a) {
      const Arc& arc = arcs_[a];
      const auto from = static_cast<size_t>(std::max(arc.from, 0));
      const double worth = weights[a] * behind[static_cast<size_t>(arc.to)];
      here[from] += worth;
      const double occupancy = (arc.from < 0 ? 1.0 : alpha[k - 1][from]) * worth;
      if (occupancy == 0) continue;
      occupancies->push_back({static_cast<int32_t>(k), arc.pdf_id, static_cast<float>(occupancy)});
    }
    // Arcs of one pdf-id become one.
    const auto begin = occupancies->begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_sort(begin, occupancies->end(),
                     [](const Occupancy& a, const Occupancy& b) { return a.pdf_id < b.pdf_id; });
    auto kept = begin;
    for (auto it = begin; it != occupancies->end(); ++it) {
      if (it != begin && it->pdf_id == kept->pdf_id) {
        kept->value += it->value;
      } else if (it != begin) {
        *++kept = *it;
      }
    }
    if (begin != occupancies->end()) occupancies->erase(kept + 1, occupancies->end());
    std::swap(behind, here);
  }
  std::reverse(occupancies->begin(), occupancies->end());
  return log_sum;
}

}  // namespace antiphon::chain
