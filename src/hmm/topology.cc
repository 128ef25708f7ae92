#include "hmm/topology.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

// Far beyond any topology in use; keeps counts of classes from overflowing.
constexpr int kMaxPdfClasses = 1 << 16;

void CheckEntry(const TopologyEntry& entry, size_t index) {
  const auto bad = [&](const std::string& what) { Throw<InputError>("topology entry {}: {}", index, what); };
  if (entry.size() < 2) bad("needs at least one emitting state and the exit");
  std::vector<bool> reached(entry.size(), false);
  reached[0] = true;
  for (size_t s = 0; s < entry.size(); ++s) {
    const bool last = s + 1 == entry.size();
    if (last != (entry[s].pdf_class < 0) || last != entry[s].transitions.empty())
      bad(fmt::format("state {}: exactly the last state emits nothing and has no transitions", s));
    if (entry[s].pdf_class >= kMaxPdfClasses) bad(fmt::format("state {} has pdf class {}", s, entry[s].pdf_class));
    if (entry[s].self_loop_pdf_class >= kMaxPdfClasses || entry[s].self_loop_pdf_class < -1)
      bad(fmt::format("state {} has pdf class {} for frames that stay", s, entry[s].self_loop_pdf_class));
    double sum = 0;
    for (size_t t = 0; t < entry[s].transitions.size(); ++t) {
      const TopologyTransition& transition = entry[s].transitions[t];
      if (transition.to < 0 || static_cast<size_t>(transition.to) >= entry.size())
        bad(fmt::format("state {} leads to state {} of {}", s, transition.to, entry.size()));
      for (size_t u = 0; u < t; ++u) {
        if (entry[s].transitions[u].to == transition.to)
          bad(fmt::format("state {} leads to {} twice", s, transition.to));
      }
      if (!(transition.probability > 0 && transition.probability <= 1))
        bad(fmt::format("state {} has a transition of probability {}", s, transition.probability));
      sum += transition.probability;
      reached[static_cast<size_t>(transition.to)] = true;
    }
    const auto stays = [s](const TopologyTransition& t) { return t.to == static_cast<int>(s); };
    if (entry[s].self_loop_pdf_class >= 0 && std::ranges::none_of(entry[s].transitions, stays))
      bad(fmt::format("state {} has a pdf class for frames that stay, but no self-loop", s));
    if (!last && std::abs(sum - 1) > 0.01) bad(fmt::format("probabilities of state {} add up to {}, not 1", s, sum));
  }
  if (std::find(reached.begin(), reached.end(), false) != reached.end()) bad("a state cannot be reached");
}

}  // namespace

TopologyEntry LeftToRightEntry(int num_states, double self_loop_probability) {
  TopologyEntry entry;
  for (int s = 0; s < num_states; ++s) {
    entry.push_back(
        {s, {{s, static_cast<float>(self_loop_probability)}, {s + 1, static_cast<float>(1 - self_loop_probability)}}});
  }
  entry.emplace_back();
  return entry;
}

TopologyEntry ErgodicEntry(int num_states, double self_loop_probability) {
  TopologyEntry entry;
  for (int s = 0; s + 1 < num_states; ++s) {
    const int first = s == 0 ? 0 : 1;
    const int last = s == 0 ? num_states - 2 : num_states - 1;
    TopologyState state{s, {}};
    for (int to = first; to <= last; ++to)
      state.transitions.push_back({to, 1.0F / static_cast<float>(last - first + 1)});
    entry.push_back(std::move(state));
  }
  const int s = num_states - 1;
  entry.push_back(
      {s, {{s, static_cast<float>(self_loop_probability)}, {s + 1, static_cast<float>(1 - self_loop_probability)}}});
  entry.emplace_back();
  return entry;
}

TopologyEntry ChainEntry() { return {{0, {{0, 0.5F}, {1, 0.5F}}, 1}, {}}; }

Topology::Topology(const PhoneSet& phones, const TopologyOptions& options)
    : entries_{LeftToRightEntry(options.num_states, options.self_loop_probability),
               options.num_silence_states >= 4
                   ? ErgodicEntry(options.num_silence_states, options.self_loop_probability)
                   : LeftToRightEntry(options.num_silence_states, options.self_loop_probability)} {
  for (int32_t phone = 1; phone <= phones.num_phones(); ++phone)
    entry_of_phone_.push_back(phones.IsSilence(phone) ? 1 : 0);
  Check();
}

Topology::Topology(std::vector<TopologyEntry> entries, std::vector<int> entry_of_phone)
    : entries_(std::move(entries)), entry_of_phone_(std::move(entry_of_phone)) {
  Check();
}

Topology Topology::Chain(const PhoneSet& phones) {
  std::vector<int> entry_of_phone(static_cast<size_t>(phones.num_phones()) + 1, 0);
  entry_of_phone[0] = -1;  // no phone
  return {{ChainEntry()}, std::move(entry_of_phone)};
}

bool Topology::IsChain() const {
  for (int32_t phone = 1; phone <= num_phones(); ++phone) {
    const TopologyEntry& entry = Entry(phone);
    if (entry.size() != 2 || entry[0].pdf_class != 0 || entry[0].self_loop_pdf_class != 1) return false;
  }
  return num_phones() > 0;
}

void Topology::Check() const {
  for (size_t i = 0; i < entries_.size(); ++i) CheckEntry(entries_[i], i);
  if (entry_of_phone_.empty()) throw InputError("the topology names no phones");
  for (size_t phone = 1; phone < entry_of_phone_.size(); ++phone) {
    if (entry_of_phone_[phone] < 0 || static_cast<size_t>(entry_of_phone_[phone]) >= entries_.size())
      Throw<InputError>("phone {} has topology entry {} of {}", phone, entry_of_phone_[phone], entries_.size());
  }
}

const TopologyEntry& Topology::Entry(int32_t phone) const {
  CHECK(phone >= 1 && phone <= num_phones()) << "phone id " << phone;
  return entries_[static_cast<size_t>(entry_of_phone_[static_cast<size_t>(phone)])];
}

int Topology::NumPdfClasses(int32_t phone) const {
  int classes = 0;
  for (const TopologyState& state : Entry(phone)) {
    classes = std::max({classes, state.pdf_class + 1, state.self_loop_pdf_class + 1});
  }
  return classes;
}

}  // namespace antiphon::hmm
