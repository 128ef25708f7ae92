#include "decode/lm/ngram_fst.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using NgramArc = fst::StdArc;

// Histories without own continuations only back off: they are skipped, their weight is paid on the way.
class HistoryStates {
 public:
  explicit HistoryStates(const NgramModel& model) : model_(model), state_of_node_(model.nodes().size(), -1) {
    int32_t count = 0;
    for (size_t i = 0; i < model.nodes().size(); ++i) {
      if (i == NgramModel::kRoot || model.nodes()[i].has_children) state_of_node_[i] = count++;
    }
    count_ = count;
  }
  struct Target {
    int32_t state;
    float cost;
  };
  Target Resolve(int32_t node) const {
    float cost = 0.0F;
    while (state_of_node_[node] < 0) {
      cost -= model_.nodes()[node].log_backoff;
      node = model_.nodes()[node].backoff_node;
    }
    return {state_of_node_[node], cost};
  }
  int32_t count() const { return count_; }

 private:
  const NgramModel& model_;
  std::vector<int32_t> state_of_node_;
  int32_t count_ = 0;
};

void RequireAnySentence(const fst::StdVectorFst& grammar) {
  if (grammar.NumStates() == 0) {
    throw InputError("the language model accepts no sentence of words that have a pronunciation");
  }
}

}  // namespace

std::vector<std::string> NgramToFst(const NgramModel& model, const WordLookup& lookup, int32_t backoff_label,
                                    fst::StdVectorFst* fst) {
  fst->DeleteStates();
  std::vector<std::string> left_out;
  const HistoryStates states(model);
  for (int32_t i = 0; i < states.count(); ++i) fst->AddState();
  const int32_t begin = model.WordId("<s>"), end = model.WordId("</s>");
  std::vector<int32_t> labels(model.words().size(), -1);
  for (size_t w = 0; w < labels.size(); ++w) {
    if (static_cast<int32_t>(w) == begin || static_cast<int32_t>(w) == end) continue;
    labels[w] = lookup(model.words()[w]);
    if (labels[w] < 0) left_out.push_back(model.words()[w]);
  }
  std::sort(left_out.begin(), left_out.end());
  fst->SetStart(states.Resolve(model.StartState()).state);
  for (size_t i = 0; i < model.nodes().size(); ++i) {
    const NgramModel::Node& node = model.nodes()[i];
    if (i != NgramModel::kRoot && node.log_prob > NgramModel::kImpossible && node.word != begin) {
      const int32_t from = states.Resolve(node.parent).state;
      if (node.word == end) {
        fst->SetFinal(from, -node.log_prob);
      } else if (labels[node.word] > 0) {
        const auto to = states.Resolve(node.depth < model.order() ? static_cast<int32_t>(i) : node.backoff_node);
        fst->AddArc(from, NgramArc(labels[node.word], labels[node.word], to.cost - node.log_prob, to.state));
      }
    }
    if (i != NgramModel::kRoot && node.has_children) {
      const auto to = states.Resolve(node.backoff_node);
      fst->AddArc(states.Resolve(static_cast<int32_t>(i)).state,
                  NgramArc(backoff_label, 0, to.cost - node.log_backoff, to.state));
    }
  }
  fst::Connect(fst);
  RequireAnySentence(*fst);
  return left_out;
}

std::vector<std::string> WordLoopFst(const std::vector<std::string>& words, const WordLookup& lookup,
                                     fst::StdVectorFst* fst) {
  fst->DeleteStates();
  std::vector<std::string> left_out;
  std::set<int32_t> labels;
  for (const std::string& word : words) {
    const int32_t label = lookup(word);
    if (label > 0) labels.insert(label);
    if (label < 0) left_out.push_back(word);
  }
  std::sort(left_out.begin(), left_out.end());
  if (labels.empty()) throw InputError("none of the listed words has a pronunciation");
  const auto cost = static_cast<float>(std::log(static_cast<double>(labels.size()) + 1.0));
  const auto state = fst->AddState();
  fst->SetStart(state);
  fst->SetFinal(state, cost);
  for (const int32_t label : labels) fst->AddArc(state, NgramArc(label, label, cost, state));
  return left_out;
}

namespace {

class GrammarParser {
 public:
  GrammarParser(const std::string& source, const WordLookup& lookup, fst::StdVectorFst* fst)
      : source_(source), lookup_(lookup), fst_(fst) {}

  std::vector<std::string> Parse(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      ParseLine(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    fst::Connect(fst_);
    WithContext([&] { RequireAnySentence(*fst_); }, [&] { return source_; });
    return {left_out_.begin(), left_out_.end()};
  }

 private:
  void ParseLine(std::string_view line) {
    std::vector<std::string_view> fields;
    for (size_t at = line.find_first_not_of(kBlanks); at < line.size() && line[at] != '#';) {
      const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
      fields.push_back(line.substr(at, end - at));
      at = std::min(line.find_first_not_of(kBlanks, end), line.size());
    }
    if (fields.empty()) return;
    if (fields.size() > 5) Fail("expected 'from to in [out] [weight]' or 'state [weight]'");
    const int32_t from = State(fields[0]);
    if (fst_->Start() == fst::kNoStateId) fst_->SetStart(from);
    if (fields.size() <= 2) {
      fst_->SetFinal(from, fields.size() == 2 ? Weight(fields[1]) : 0.0F);
      return;
    }
    const int32_t to = State(fields[1]);
    // "from to in weight" and "from to in out" look alike: the fourth is a weight if it is a number.
    float weight = 0.0F;
    if (fields.size() == 5) weight = Weight(fields[4]);
    if (fields.size() == 4) ParseFloat(fields[3], weight);
    const bool epsilon = fields[2] == "<eps>" || fields[2] == "<epsilon>";
    const int32_t label = epsilon ? 0 : lookup_(fields[2]);
    if (label < 0) {
      left_out_.emplace(fields[2]);
      return;
    }
    fst_->AddArc(from, NgramArc(label, label, weight, to));
  }

  int32_t State(std::string_view field) {
    int64_t number = -1;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (error != std::errc() || end != field.data() + field.size() || number < 0) {
      Fail(fmt::format("expected a state number, found '{}'", field));
    }
    const auto [it, added] = states_.emplace(number, fst_->NumStates());
    if (added) fst_->AddState();
    return it->second;
  }

  static bool ParseFloat(std::string_view field, float& value) {
    if (field == "Infinity") {
      value = fst::TropicalWeight::Zero().Value();
      return true;
    }
    float parsed = 0.0F;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), parsed);
    if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(parsed)) return false;
    value = parsed;
    return true;
  }

  float Weight(std::string_view field) const {
    float value = 0.0F;
    if (!ParseFloat(field, value)) Fail(fmt::format("expected a weight (−log probability), found '{}'", field));
    return value;
  }

  [[noreturn]] void Fail(const std::string& message) const { Throw<InputError>("{}:{}: {}", source_, line_, message); }

  static constexpr std::string_view kBlanks = " \t\r";
  const std::string& source_;
  const WordLookup& lookup_;
  int64_t line_ = 0;
  std::map<int64_t, int32_t> states_;  // as numbered in the text
  fst::StdVectorFst* fst_;
  std::set<std::string> left_out_;
};

}  // namespace

std::vector<std::string> ParseGrammar(std::string_view text, const std::string& source, const WordLookup& lookup,
                                      fst::StdVectorFst* fst) {
  fst->DeleteStates();
  return GrammarParser(source, lookup, fst).Parse(text);
}

std::vector<std::string> GrammarFromText(const std::filesystem::path& path, const WordLookup& lookup,
                                         fst::StdVectorFst* fst) {
  return ParseGrammar(ComposeLines(ReadFile(path), path.string()), path.string(), lookup, fst);
}

}  // namespace antiphon::decode
