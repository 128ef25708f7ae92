#include "decode/lattice/lattice_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace antiphon::decode {
namespace {

void AppendWeight(const Lattice& lattice, const LatticeCost& cost, AlignmentRange alignment, std::string& text) {
  fmt::format_to(std::back_inserter(text), "{:.7g},{:.7g},{}\n", cost.graph, cost.acoustic,
                 fmt::join(lattice.Alignment(alignment), "_"));
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& source)
      : rest_(text), source_(source), max_states_(std::count(text.begin(), text.end(), '\n') + 2) {}

  std::vector<std::pair<std::string, Lattice>> Run() {
    std::vector<std::pair<std::string, Lattice>> result;
    while (NextLine()) {
      const auto fields = Fields();
      if (fields.empty()) continue;
      if (fields.size() != 1) Fail("expected an utterance id alone on its line");
      result.emplace_back(fields[0], Lattice{});
      ReadStates(result.back().second);
    }
    return result;
  }

 private:
  bool NextLine() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }

  std::vector<std::string_view> Fields() const {
    std::vector<std::string_view> fields;
    for (size_t at = line_.find_first_not_of(" \t\r"); at < line_.size();) {
      const size_t end = std::min(line_.find_first_of(" \t\r", at), line_.size());
      fields.push_back(line_.substr(at, end - at));
      at = line_.find_first_not_of(" \t\r", end);
    }
    return fields;
  }

  void ReadStates(Lattice& lattice) {
    while (NextLine()) {
      const auto fields = Fields();
      if (fields.empty()) break;
      if (fields.size() > 4) Fail("expected 'FROM TO WORD WEIGHT' or 'STATE WEIGHT'");
      const int32_t from = State(fields[0], lattice);
      if (fields.size() <= 2) {
        LatticeState& state = lattice.states[from];
        state.is_final = true;
        if (fields.size() == 2) state.final_alignment = Weight(fields[1], lattice, state.final_cost);
        continue;
      }
      LatticeArc arc;
      arc.next_state = State(fields[1], lattice);
      if (arc.next_state <= from) Fail("arcs must lead to higher states: sort the lattice topologically first");
      arc.word = Number<int32_t>(fields[2]);
      if (arc.word < 0) Fail("a word id is negative");
      if (fields.size() == 4) arc.alignment = Weight(fields[3], lattice, arc.cost);
      lattice.states[from].arcs.push_back(arc);
    }
  }

  int32_t State(std::string_view field, Lattice& lattice) const {
    const auto state = Number<int32_t>(field);
    // Every state but the last has a line of its own: numbers cannot outgrow the text.
    if (state < 0 || state > max_states_) Fail(fmt::format("state {} is out of range", state));
    if (static_cast<size_t>(state) >= lattice.states.size()) lattice.states.resize(static_cast<size_t>(state) + 1);
    return state;
  }

  AlignmentRange Weight(std::string_view field, Lattice& lattice, LatticeCost& cost) const {
    const size_t first = field.find(','), second = field.find(',', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) Fail("expected 'GRAPH,ACOUSTIC,IDS'");
    cost.graph = Number<double>(field.substr(0, first));
    cost.acoustic = Number<double>(field.substr(first + 1, second - first - 1));
    if (!std::isfinite(cost.graph) || !std::isfinite(cost.acoustic)) Fail("a cost is not finite");
    std::vector<int32_t> ids;
    for (std::string_view rest = field.substr(second + 1); !rest.empty();) {
      const size_t end = std::min(rest.find('_'), rest.size());
      ids.push_back(Number<int32_t>(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return lattice.AddAlignment(ids);
  }

  template <class T>
  T Number(std::string_view field) const {
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size())
      Fail(fmt::format("expected a number, found '{}'", field));
    return value;
  }

  [[noreturn]] void Fail(const std::string& message) const {
    Throw<InputError>("{}:{}: {}", source_, number_, message);
  }

  std::string_view rest_, line_;
  const std::string& source_;
  int64_t max_states_;
  int64_t number_ = 0;
};

// Where pieces begin: no arc passes over such a state, and only arcs without a word, one from each state, lead to it.
// Lattices of pieces are determinised: all their arcs have words.
std::vector<size_t> PieceStarts(const Lattice& whole) {
  std::vector<size_t> starts = {0};
  std::vector<bool> within(whole.states.size(), false);
  int32_t farthest = 0;
  bool ended = false;
  for (size_t s = 0; s < whole.states.size(); ++s) {
    if (s > 0 && static_cast<size_t>(farthest) == s && !within[s] && !ended) starts.push_back(s);
    int32_t joined = -1;
    for (const LatticeArc& arc : whole.states[s].arcs) {
      if (arc.word != 0 || arc.next_state == joined) within[static_cast<size_t>(arc.next_state)] = true;
      if (arc.word == 0) joined = arc.next_state;
      farthest = std::max(farthest, arc.next_state);
    }
    ended = ended || whole.states[s].is_final;
  }
  return starts;
}

// The states from `begin` to before `end`; arcs to `end` are what their states end with.
Lattice PieceOf(const Lattice& whole, size_t begin, size_t end) {
  Lattice piece;
  piece.states.resize(end - begin);
  for (size_t s = begin; s < end; ++s) {
    const LatticeState& from = whole.states[s];
    LatticeState& state = piece.states[s - begin];
    state.is_final = from.is_final;
    state.final_cost = from.final_cost;
    state.final_alignment = piece.AddAlignment(whole.Alignment(from.final_alignment));
    for (LatticeArc arc : from.arcs) {
      arc.alignment = piece.AddAlignment(whole.Alignment(arc.alignment));
      arc.next_state -= static_cast<int32_t>(begin);
      if (static_cast<size_t>(arc.next_state) < piece.states.size()) {
        state.arcs.push_back(arc);
        continue;
      }
      state.is_final = true;
      state.final_cost = arc.cost;
      state.final_alignment = arc.alignment;
    }
  }
  return piece;
}

}  // namespace

std::vector<Lattice> SplitPieces(const Lattice& whole) {
  std::vector<Lattice> pieces;
  if (whole.empty()) return pieces;
  const std::vector<size_t> starts = PieceStarts(whole);
  for (size_t p = 0; p < starts.size(); ++p) {
    pieces.push_back(PieceOf(whole, starts[p], p + 1 < starts.size() ? starts[p + 1] : whole.states.size()));
  }
  return pieces;
}

std::string LatticeToText(std::string_view utt_id, const Lattice& lattice) {
  LatticeTextInPieces text(utt_id);
  const std::string begin = text.Add(lattice);
  return begin + text.Finish();
}

std::string LatticeTextInPieces::Add(Lattice piece) {
  if (piece.empty()) return {};
  std::string text = Take(/*last=*/false);
  piece_ = std::move(piece);
  return text;
}

std::string LatticeTextInPieces::Finish() { return Take(/*last=*/true) + "\n"; }

std::string LatticeTextInPieces::Take(bool last) {
  std::string text = std::exchange(text_, {});
  const auto num_states = static_cast<int64_t>(piece_.states.size());
  for (int64_t s = 0; s < num_states; ++s) {
    const LatticeState& state = piece_.states[static_cast<size_t>(s)];
    const int64_t number = first_state_ + s;
    for (const LatticeArc& arc : state.arcs) {
      fmt::format_to(std::back_inserter(text), "{} {} {} ", number, first_state_ + arc.next_state, arc.word);
      AppendWeight(piece_, arc.cost, arc.alignment, text);
    }
    if (!state.is_final) continue;
    if (last) {
      fmt::format_to(std::back_inserter(text), "{} ", number);
    } else {
      fmt::format_to(std::back_inserter(text), "{} {} 0 ", number, first_state_ + num_states);
    }
    AppendWeight(piece_, state.final_cost, state.final_alignment, text);
  }
  first_state_ += num_states;
  piece_ = {};
  return text;
}

std::vector<std::pair<std::string, Lattice>> ParseLattices(std::string_view text, const std::string& source) {
  return Parser(text, source).Run();
}

}  // namespace antiphon::decode
