#include "written/rule_source.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hmm/graph/openfst.h"

namespace antiphon::written {
namespace {

using Fst = fst::StdVectorFst;
using Arc = fst::StdArc;

constexpr int kDeepest = 200;  // parentheses, which are read by recursion

struct Definition {
  std::string name;
  std::string text;  // of the expression
  int line = 0;
};

bool IsNameLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::vector<Definition> SplitDefinitions(std::string_view text, const std::string& source) {
  std::vector<Definition> definitions;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (first > 0) {
      if (definitions.empty()) Throw<InputError>("{}:{}: the first line of rules is indented", source, number);
      definitions.back().text += fmt::format("\n{}", line);
      continue;
    }
    const size_t equals = line.find('=');
    size_t name = 0;
    while (name < line.size() && IsNameLetter(line[name])) ++name;
    if (name == 0 || equals == std::string_view::npos || line.find_first_not_of(" \t", name) != equals) {
      Throw<InputError>("{}:{}: expected NAME = EXPRESSION, found '{}'", source, number, line);
    }
    definitions.push_back({std::string(line.substr(0, name)), std::string(line.substr(equals + 1)), number});
  }
  return definitions;
}

// Both sides byte by byte, the shorter one filled up with nothing.
Fst PairOf(std::string_view spoken, std::string_view written) {
  Fst pair;
  int state = pair.AddState();
  pair.SetStart(state);
  for (size_t i = 0; i < std::max(spoken.size(), written.size()); ++i) {
    const int next = pair.AddState();
    const auto label = [&](std::string_view side) {
      return i < side.size() ? int{static_cast<unsigned char>(side[i])} : 0;
    };
    pair.AddArc(state, Arc(label(spoken), label(written), Arc::Weight::One(), next));
    state = next;
  }
  pair.SetFinal(state, Arc::Weight::One());
  return pair;
}

class ExpressionParser {
 public:
  ExpressionParser(const Definition& definition, const std::map<std::string, Fst>& known, const std::string& source)
      : text_(definition.text), known_(known), source_(source), line_(definition.line) {}

  Fst Run() {
    Fst all = Alternatives();
    if (!AtEnd()) Fail("expected the end of the rule");
    return all;
  }

 private:
  Fst Alternatives() {
    Fst all = Sequence();
    while (Take('|')) fst::Union(&all, Sequence());
    return all;
  }

  Fst Sequence() {
    Fst all = Item();
    while (!AtEnd() && text_[at_] != '|' && text_[at_] != ')') fst::Concat(&all, Item());
    return all;
  }

  Fst Item() {
    Fst item = Atom();
    for (;;) {
      if (Take('?')) {
        fst::Union(&item, PairOf("", ""));
      } else if (Take('*')) {
        fst::Closure(&item, fst::CLOSURE_STAR);
      } else if (Take('+')) {
        fst::Closure(&item, fst::CLOSURE_PLUS);
      } else {
        return item;
      }
    }
  }

  Fst Atom() {
    if (AtEnd()) Fail("the rule ends where something is expected");
    const char c = text_[at_];
    if (c == '"') {
      const std::string spoken = Quoted();
      return PairOf(spoken, Take(':') ? (SkipBlanks(), Quoted()) : spoken);
    }
    if (Take('(')) {
      if (++depth_ > kDeepest) Fail(fmt::format("more than {} ( within each other", kDeepest));
      Fst inner = Alternatives();
      --depth_;
      if (!Take(')')) Fail("a ( is not closed");
      return inner;
    }
    if (Take('<')) return Cost();
    return Named();
  }

  Fst Cost() {
    float cost = 0.0F;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), cost);
    if (error != std::errc() || !(cost >= 0.0F)) Fail("expected a cost of 0 or more behind <");
    at_ = static_cast<size_t>(end - text_.data());
    if (!Take('>')) Fail("a < is not closed");
    Fst weighted = PairOf("", "");
    weighted.SetFinal(weighted.Start(), cost);
    return weighted;
  }

  Fst Named() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameLetter(text_[at_])) ++at_;
    const std::string name = text_.substr(begin, at_ - begin);
    if (name.empty()) Fail(fmt::format("'{}' is not expected here", text_[at_]));
    const auto found = known_.find(name);
    if (found == known_.end()) Fail(fmt::format("'{}' is not defined above", name));
    return found->second;
  }

  std::string Quoted() {
    if (AtEnd() || text_[at_] != '"') Fail("expected a text in \"quotes\"");
    std::string quoted;
    for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      quoted += text_[at_];
    }
    if (at_ >= text_.size() || text_[at_] != '"') Fail("a \" is not closed");
    ++at_;
    return quoted;
  }

  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipBlanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) {
      line_ += text_[at_++] == '\n' ? 1 : 0;
    }
  }
  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  [[noreturn]] void Fail(const std::string& what) const { Throw<InputError>("{}:{}: {}", source_, line_, what); }

  const std::string& text_;
  const std::map<std::string, Fst>& known_;
  const std::string& source_;
  int line_;
  size_t at_ = 0;
  int depth_ = 0;
};

// As few states as there can be without touching what is read and written where.
void MakeSmall(Fst* rules) {
  fst::RmEpsilon(rules);
  fst::EncodeMapper<Arc> mapper(fst::kEncodeLabels | fst::kEncodeWeights, fst::ENCODE);
  fst::Encode(rules, &mapper);
  Fst determinized;
  fst::Determinize(*rules, &determinized);
  fst::Minimize(&determinized);
  fst::Decode(&determinized, mapper);
  *rules = determinized;
}

}  // namespace

void BuildRules(std::string_view text, const std::string& source, Fst* rules) {
  std::map<std::string, Fst> known;
  for (const Definition& definition : SplitDefinitions(text, source)) {
    Fst built = ExpressionParser(definition, known, source).Run();
    MakeSmall(&built);
    if (!known.emplace(definition.name, std::move(built)).second) {
      Throw<InputError>("{}:{}: '{}' is defined twice", source, definition.line, definition.name);
    }
  }
  const auto written = known.find("written");
  if (written == known.end()) Throw<InputError>("'{}' defines no rule 'written', which is what is built", source);
  *rules = written->second;
  fst::ArcSort(rules, fst::ILabelCompare<Arc>());
}

}  // namespace antiphon::written
