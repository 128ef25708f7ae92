#include "decode/graph/word_automaton.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "decode/graph/determinize_star.h"
#include "decode/graph/graph_operations.h"
#include "hmm/graph/openfst.h"
#include "math/safetensors.h"

namespace antiphon::decode {
namespace {

using WordArc = fst::StdArc;

constexpr float kNever = std::numeric_limits<float>::infinity();

// One arc per word in each state, at most one that backs off, and none without a label.
bool IsDeterministic(const fst::StdVectorFst& grammar) {
  std::vector<int32_t> labels;
  for (int s = 0; s < grammar.NumStates(); ++s) {
    labels.clear();
    for (fst::ArcIterator<fst::StdVectorFst> it(grammar, s); !it.Done(); it.Next()) labels.push_back(it.Value().ilabel);
    std::sort(labels.begin(), labels.end());
    if (!labels.empty() && labels[0] == 0) return false;
    if (std::adjacent_find(labels.begin(), labels.end()) != labels.end()) return false;
  }
  return true;
}

template <class T>
std::span<const T> Array(const SafetensorsReader& file, std::string_view name, TensorType type) {
  const TensorView& tensor = file.Tensor(name);
  if (tensor.type != type || tensor.shape.size() != 1 || tensor.data.size() % sizeof(T) != 0 ||
      reinterpret_cast<uintptr_t>(tensor.data.data()) % alignof(T) != 0) {
    Throw<InputError>("'{}': '{}' is no list of {}", file.path().string(), name, TensorTypeName(type));
  }
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

}  // namespace

struct WordAutomaton::Owned {
  std::vector<int32_t> first_arcs, words, next, backoffs;
  std::vector<float> costs, backoff_costs, final_costs;
};

WordAutomaton WordAutomaton::FromFst(const fst::StdVectorFst& given, int32_t backoff_word, int64_t max_states) {
  fst::StdVectorFst determinized;
  const bool as_given = IsDeterministic(given);
  if (!as_given) {
    DeterminizeStar(given, max_states, &determinized);
    MergeEqualStates(&determinized);
  }
  const fst::StdVectorFst& grammar = as_given ? given : determinized;
  auto owned = std::make_shared<Owned>();
  std::vector<WordArc> arcs;
  for (int s = 0; s < grammar.NumStates(); ++s) {
    owned->first_arcs.push_back(static_cast<int32_t>(owned->words.size()));
    owned->final_costs.push_back(grammar.Final(s).Value());
    owned->backoffs.push_back(-1);
    owned->backoff_costs.push_back(0.0F);
    arcs.clear();
    for (fst::ArcIterator<fst::StdVectorFst> it(grammar, s); !it.Done(); it.Next()) {
      const WordArc& arc = it.Value();
      if (arc.ilabel == backoff_word) {
        owned->backoffs.back() = arc.nextstate;
        owned->backoff_costs.back() = arc.weight.Value();
      } else if (arc.weight != WordArc::Weight::Zero()) {
        arcs.push_back(arc);
      }
    }
    std::sort(arcs.begin(), arcs.end(), [](const WordArc& a, const WordArc& b) { return a.ilabel < b.ilabel; });
    for (const WordArc& arc : arcs) {
      owned->words.push_back(arc.ilabel);
      owned->costs.push_back(arc.weight.Value());
      owned->next.push_back(arc.nextstate);
    }
  }
  owned->first_arcs.push_back(static_cast<int32_t>(owned->words.size()));
  WordAutomaton result;
  result.start_ = grammar.Start();
  result.first_arcs_ = owned->first_arcs;
  result.words_ = owned->words;
  result.next_ = owned->next;
  result.costs_ = owned->costs;
  result.backoffs_ = owned->backoffs;
  result.backoff_costs_ = owned->backoff_costs;
  result.final_costs_ = owned->final_costs;
  result.owner_ = std::move(owned);
  result.Check(backoff_word - 1);
  result.FindBase();
  return result;
}

WordAutomaton WordAutomaton::Load(const std::filesystem::path& path, int32_t num_words) {
  const auto file = std::make_shared<const SafetensorsReader>(path);
  WordAutomaton result;
  const auto start = Array<int32_t>(*file, "start", TensorType::kI32);
  result.first_arcs_ = Array<int32_t>(*file, "first_arc", TensorType::kI32);
  result.words_ = Array<int32_t>(*file, "word", TensorType::kI32);
  result.next_ = Array<int32_t>(*file, "next_state", TensorType::kI32);
  result.costs_ = Array<float>(*file, "cost", TensorType::kF32);
  result.backoffs_ = Array<int32_t>(*file, "backoff_state", TensorType::kI32);
  result.backoff_costs_ = Array<float>(*file, "backoff_cost", TensorType::kF32);
  result.final_costs_ = Array<float>(*file, "final_cost", TensorType::kF32);
  result.owner_ = file;
  WithContext(
      [&] {
        if (start.size() != 1) throw InputError("it has no start state");
        result.start_ = start[0];
        result.Check(num_words);
        result.FindBase();
      },
      [&] { return fmt::format("'{}' is damaged; build the graph again", path.string()); });
  return result;
}

void WordAutomaton::Save(AtomicFile& file) const {
  SafetensorsWriter writer;
  writer.Add("start", std::span(&start_, 1));
  writer.Add("first_arc", first_arcs_);
  writer.Add("word", words_);
  writer.Add("next_state", next_);
  writer.Add("cost", costs_);
  writer.Add("backoff_state", backoffs_);
  writer.Add("backoff_cost", backoff_costs_);
  writer.Add("final_cost", final_costs_);
  writer.Write(file);
}

// Nothing in a file may be relied on.
void WordAutomaton::Check(int32_t num_words) const {
  const auto fail = [](const char* what) { Throw<InputError>("the language model is none: {}", what); };
  const size_t count = final_costs_.size();
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max()) || first_arcs_.size() != count + 1 ||
      backoffs_.size() != count || backoff_costs_.size() != count || next_.size() != words_.size() ||
      costs_.size() != words_.size()) {
    fail("its lists have different lengths");
  }
  const auto is_state = [&](int32_t s) { return s >= 0 && static_cast<size_t>(s) < count; };
  if (!is_state(start_)) fail("it has no start state");
  if (first_arcs_[0] != 0 || static_cast<size_t>(first_arcs_[count]) != words_.size()) fail("arcs out of range");
  for (size_t s = 0; s < count; ++s) {
    if (first_arcs_[s] > first_arcs_[s + 1] || static_cast<size_t>(first_arcs_[s + 1]) > words_.size())
      fail("arcs out of range");
    if (std::isnan(final_costs_[s]) || final_costs_[s] == -kNever) fail("a final cost is not a number");
    if (backoffs_[s] != -1 && !is_state(backoffs_[s])) fail("a back-off leads to no state");
    if (!std::isfinite(backoff_costs_[s])) fail("a cost is not a finite number");
    for (auto a = static_cast<size_t>(first_arcs_[s]); a < static_cast<size_t>(first_arcs_[s + 1]); ++a) {
      if (words_[a] < 1 || words_[a] > num_words) fail("a word is not in words.txt");
      if (a > static_cast<size_t>(first_arcs_[s]) && words_[a] <= words_[a - 1]) fail("words are not sorted");
      if (!is_state(next_[a])) fail("an arc leads to no state");
      if (!std::isfinite(costs_[a])) fail("a cost is not a finite number");
    }
  }
  // A cycle of back-offs would be followed for ever: states are taken from the ends of the chains.
  std::vector<uint8_t> ends(count, 0);  // 1: on the present chain, 2: known to end
  std::vector<int32_t> chain;
  for (size_t s = 0; s < count; ++s) {
    chain.clear();
    auto at = static_cast<int32_t>(s);
    for (; at >= 0 && ends[static_cast<size_t>(at)] == 0; at = backoffs_[static_cast<size_t>(at)]) {
      ends[static_cast<size_t>(at)] = 1;
      chain.push_back(at);
    }
    if (at >= 0 && ends[static_cast<size_t>(at)] == 1) fail("backing off comes back to where it began");
    for (const int32_t state : chain) ends[static_cast<size_t>(state)] = 2;
  }
}

void WordAutomaton::FindBase() {
  base_state_ = start_;
  while (Backoff(base_state_) >= 0) base_state_ = Backoff(base_state_);
}

void WordAutomaton::AddWords(const std::vector<AddedWord>& words) {
  const auto known = ArcsOf(base_state_).words;
  for (const AddedWord& word : words) {
    const auto same = [&](const AddedWord& other) { return other.first == word.first; };
    if (std::binary_search(known.begin(), known.end(), word.first)) continue;
    if (std::any_of(added_.begin(), added_.end(), same)) continue;
    added_.push_back(word);
  }
}

std::vector<bool> WordAutomaton::SaidWords(int32_t num_words) const {
  std::vector<bool> said(static_cast<size_t>(num_words) + 1, false);
  for (const int32_t word : words_) said[static_cast<size_t>(word)] = true;
  for (const AddedWord& word : added_) said[static_cast<size_t>(word.first)] = true;
  return said;
}

}  // namespace antiphon::decode
