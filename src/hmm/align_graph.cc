#include "hmm/align_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

constexpr int32_t kNoArc = -1;

// Phones and what may follow them, before context is known.
struct PhoneArc {
  int32_t phone;
  int32_t word_position;
  std::vector<std::pair<int32_t, float>> followers;  // phone arc and cost; kNoArc is the end
};

using Followers = std::vector<std::pair<int32_t, float>>;

struct PhoneGraph {
  std::vector<PhoneArc> arcs;
  Followers starts;

  int32_t Add(int32_t phone, int32_t word_position, Followers followers) {
    arcs.push_back({phone, word_position, std::move(followers)});
    return static_cast<int32_t>(arcs.size()) - 1;
  }
};

void AppendAtCost(const Followers& followers, float cost, Followers& all) {
  for (const auto& [arc, its_cost] : followers) all.emplace_back(arc, its_cost + cost);
}

// What may come where a word ends, without the choice of a pause: the next word, or with gaps one behind it. `from`: by
// position, what begins there, the nearest last.
Followers NextWords(const std::vector<Followers>& from, const GapCosts* gaps) {
  Followers next = from.back();
  if (gaps == nullptr) return next;
  for (size_t left_out = 1; left_out < from.size(); ++left_out) {
    const double cost = gaps->text + gaps->word * static_cast<double>(left_out);
    AppendAtCost(from[from.size() - 1 - left_out], static_cast<float>(cost), next);
  }
  return next;
}

PhoneGraph BuildPhoneGraph(const Lexicon& lexicon, std::span<const int32_t> words, double scale, const GapCosts* gaps) {
  const auto pause = static_cast<float>(-scale * std::log(lexicon.options().silence_probability));
  const auto no_pause = static_cast<float>(-scale * std::log(1 - lexicon.options().silence_probability));
  PhoneGraph graph;
  // From the end to the front: what may come after word i − 1 is known when it is added.
  std::vector<Followers> from = {{{kNoArc, 0.0F}}};
  for (size_t i = words.size() + 1; i-- > 0;) {
    const Followers next = NextWords(from, gaps);
    Followers choice, after_pause = next;
    AppendAtCost(next, no_pause, choice);
    if (gaps != nullptr) {
      Followers after_speech = next;
      after_speech.emplace_back(graph.Add(lexicon.optional_silence(), -1, next), pause);
      const int32_t speech = graph.Add(lexicon.optional_silence(), kForeignSpeech, std::move(after_speech));
      choice.emplace_back(speech, static_cast<float>(gaps->speech));
      after_pause.emplace_back(speech, static_cast<float>(gaps->speech));
    }
    choice.emplace_back(graph.Add(lexicon.optional_silence(), -1, std::move(after_pause)), pause);
    if (i == 0) {
      std::erase_if(choice, [](const auto& follower) { return follower.first == kNoArc; });  // nothing is no path
      graph.starts = std::move(choice);
      break;
    }
    Followers& after = from.emplace_back();
    for (const Pronunciation& entry : lexicon.PronunciationsOf(words[i - 1])) {
      Followers phones = choice;
      for (size_t p = entry.phones.size(); p-- > 0;) {
        phones = {{graph.Add(entry.phones[p], static_cast<int32_t>(i) - 1, std::move(phones)), 0.0F}};
      }
      after.emplace_back(phones[0].first, static_cast<float>(scale) * entry.cost);
    }
  }
  return graph;
}

// Instances are (phone arc, left phone, right phone), found from the starts on.
class PhoneExpander {
 public:
  PhoneExpander(const HmmModel& model, const PhoneGraph& phones, AlignGraph* out)
      : model_(model), phones_(phones), out_(*out) {}

  void Run() {
    for (const auto& [arc, cost] : phones_.starts) {
      for (const int32_t right : RightPhones(arc)) out_.starts.push_back({EntryNode(Find({arc, 0, right})), cost});
    }
    for (size_t i = 0; i < places_.size(); ++i) Connect(static_cast<int32_t>(i));
    Flatten();
  }

 private:
  struct Place {
    int32_t arc;
    int32_t left;
    int32_t right;
    auto operator<=>(const Place&) const = default;
  };
  bool wide() const { return model_.context_width() > 1; }
  bool looks_ahead() const { return model_.context_width() > 2; }

  // The phones that may follow, 0 for the end; without right context only the fact that something follows matters.
  std::vector<int32_t> RightPhones(int32_t arc) const {
    if (!looks_ahead()) return {0};
    std::vector<int32_t> phones;
    for (const auto& [next, cost] : phones_.arcs[static_cast<size_t>(arc)].followers) {
      const int32_t phone = next == kNoArc ? 0 : phones_.arcs[static_cast<size_t>(next)].phone;
      if (std::find(phones.begin(), phones.end(), phone) == phones.end()) phones.push_back(phone);
    }
    return phones;
  }

  int32_t Find(Place place) {
    if (!wide()) place.left = 0;
    const auto [it, added] = ids_.emplace(place, static_cast<int32_t>(places_.size()));
    if (added) {
      places_.push_back(place);
      AddNodes(place);
    }
    return it->second;
  }

  int32_t EntryNode(int32_t instance) const { return first_node_[static_cast<size_t>(instance)]; }

  void AddNodes(const Place& place) {
    const PhoneArc& arc = phones_.arcs[static_cast<size_t>(place.arc)];
    const int32_t window[3] = {place.left, arc.phone, place.right};
    const std::span<const int32_t> context = model_.Window(window);
    const TransitionModel& transitions = model_.transitions();
    first_node_.push_back(static_cast<int32_t>(nodes_.size()));
    out_.instances.push_back({arc.phone, arc.word_position});
    const auto num_states = static_cast<int>(model_.topology().Entry(arc.phone).size()) - 1;
    for (int s = 0; s < num_states; ++s) {
      const int32_t state = model_.TransitionState(context, s);
      const int32_t loop = transitions.SelfLoopOf(state);
      const bool foreign = arc.word_position == kForeignSpeech;
      const int32_t pdf = foreign ? model_.num_pdfs() : transitions.EntryPdf(state);
      const int32_t loop_pdf = loop != 0 && !foreign ? transitions.Pdf(loop) : pdf;
      nodes_.push_back({state, pdf, loop_pdf, loop, static_cast<int32_t>(places_.size()) - 1, 0});
      arcs_.emplace_back();
    }
  }

  void Connect(int32_t instance) {
    const Place place = places_[static_cast<size_t>(instance)];
    const PhoneArc& arc = phones_.arcs[static_cast<size_t>(place.arc)];
    const TopologyEntry& entry = model_.topology().Entry(arc.phone);
    for (size_t s = 0; s + 1 < entry.size(); ++s) {
      const auto node = static_cast<size_t>(EntryNode(instance)) + s;
      for (size_t t = 0; t < entry[s].transitions.size(); ++t) {
        const int32_t id = model_.transitions().TransitionId(nodes_[node].transition_state, static_cast<int>(t));
        const auto to = static_cast<size_t>(entry[s].transitions[t].to);
        if (to == s) continue;
        if (to + 1 < entry.size()) {
          arcs_[node].push_back({EntryNode(instance) + static_cast<int32_t>(to), id, 0});
        } else {
          Leave(place, arc, node, id);
        }
      }
    }
  }

  void Leave(const Place& place, const PhoneArc& arc, size_t node, int32_t id) {
    for (const auto& [next, cost] : arc.followers) {
      const int32_t phone = next == kNoArc ? 0 : phones_.arcs[static_cast<size_t>(next)].phone;
      if (looks_ahead() && phone != place.right) continue;
      if (next == kNoArc) {
        arcs_[node].push_back({AlignGraph::kEnd, id, cost});
        continue;
      }
      for (const int32_t right : RightPhones(next)) {
        const int32_t to = EntryNode(Find({next, arc.phone, right}));
        arcs_[node].push_back({to, id, cost});
      }
    }
  }

  void Flatten() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      nodes_[n].first_arc = static_cast<int32_t>(out_.arcs.size());
      out_.arcs.insert(out_.arcs.end(), arcs_[n].begin(), arcs_[n].end());
    }
    out_.nodes = std::move(nodes_);
    out_.nodes.emplace_back();
    out_.nodes.back().first_arc = static_cast<int32_t>(out_.arcs.size());
  }

  const HmmModel& model_;
  const PhoneGraph& phones_;
  AlignGraph& out_;
  std::vector<Place> places_;
  std::map<Place, int32_t> ids_;
  std::vector<int32_t> first_node_;  // by instance
  std::vector<AlignGraph::Node> nodes_;
  std::vector<std::vector<AlignGraph::Arc>> arcs_;  // by node
};

}  // namespace

AlignGraph BuildAlignGraph(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words,
                           double lexicon_scale, const GapCosts* gaps) {
  AlignGraph graph;
  const PhoneGraph phones = BuildPhoneGraph(lexicon, words, lexicon_scale, gaps);
  PhoneExpander(model, phones, &graph).Run();
  return graph;
}

AlignGraph BuildPhoneSequenceGraph(const HmmModel& model, std::span<const AlignGraph::Instance> phones) {
  PhoneGraph sequence;
  Followers next = {{kNoArc, 0.0F}};
  for (size_t p = phones.size(); p-- > 0;) {
    CHECK_NE(phones[p].word_position, kForeignSpeech);
    next = {{sequence.Add(phones[p].phone, phones[p].word_position, std::move(next)), 0.0F}};
  }
  sequence.starts = std::move(next);
  AlignGraph graph;
  PhoneExpander(model, sequence, &graph).Run();
  return graph;
}

}  // namespace antiphon::hmm
