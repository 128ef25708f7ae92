#include "decode/search/word_bias.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/known_case.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "decode/search/word_cost.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

struct Line {
  int number = 0;
  std::string text;   // words with one blank between them
  std::string extra;  // behind a tab
};

std::vector<Line> ReadLines(const std::string& file) {
  std::istringstream in(ComposeLines(ReadFile(file), file));
  std::vector<Line> lines;
  int number = 0;
  for (std::string raw; std::getline(in, raw);) {
    ++number;
    if (raw.starts_with('#')) continue;
    Line line{number, {}, {}};
    const size_t tab = raw.find('\t');
    if (tab != std::string::npos) line.extra = raw.substr(tab + 1);
    std::istringstream words(raw.substr(0, tab));
    for (std::string word; words >> word;) line.text += (line.text.empty() ? "" : " ") + word;
    while (!line.extra.empty() && (line.extra.back() == '\r' || line.extra.back() == ' ')) line.extra.pop_back();
    if (!line.text.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

double ParseBonus(const Line& line, const std::string& file, double otherwise) {
  if (line.extra.empty()) return otherwise;
  double value = 0;
  const char* const end = line.extra.data() + line.extra.size();
  const auto [at, error] = std::from_chars(line.extra.data(), end, value);
  if (error != std::errc() || at != end || !(value >= -100 && value <= 100)) {
    Throw<InputError>("'{}' line {}: expected a bonus from -100 to 100 behind the tab, found '{}'", file, line.number,
                      line.extra);
  }
  return value;
}

// Or else the phrases themselves. What looks like a path is one, so that a wrong name is told.
bool NamesFile(const std::string& hotwords) {
  std::error_code ignored;
  if (fs::is_regular_file(hotwords, ignored)) return true;
  if (hotwords.find(',') != std::string::npos) return false;
  return hotwords.find('/') != std::string::npos || hotwords.ends_with(".txt");
}

std::vector<std::string> PhrasesIn(const std::string& hotwords) {
  std::istringstream in(ComposeLines(hotwords, "hotwords"));
  std::vector<std::string> phrases;
  for (std::string phrase; std::getline(in, phrase, ',');) {
    if (phrase.find_first_not_of(" \t\r\n") != std::string::npos) phrases.push_back(phrase);
  }
  return phrases;
}

// Of a word that usually costs so much. What remains outweighs the pauses and transitions that the cost includes: a
// word that pays for itself is said without end.
float MostBonus(float usual_cost) { return std::max(usual_cost / 2, usual_cost - 2); }

}  // namespace

std::vector<std::pair<std::string, double>> PhrasesOf(const WordBiasOptions& options) {
  std::vector<std::pair<std::string, double>> phrases;
  if (NamesFile(options.hotwords)) {
    for (const Line& line : ReadLines(options.hotwords)) {
      phrases.emplace_back(line.text, ParseBonus(line, options.hotwords, options.hotword_bonus));
    }
  } else {
    for (const std::string& phrase : PhrasesIn(options.hotwords)) phrases.emplace_back(phrase, options.hotword_bonus);
  }
  phrases.insert(phrases.end(), options.phrases.begin(), options.phrases.end());
  return phrases;
}

WordBias::WordBias(const Graph& graph, const WordBiasOptions& options) {
  FindWords(graph);
  for (const auto& [phrase, bonus] : PhrasesOf(options)) AddPhrase(graph, phrase, bonus);
  if (!options.word_list.empty() || !options.words.empty()) Allow(graph, options);
  LimitBonuses(graph);
  Link();
}

WordBias::WordBias(const Graph& graph, std::span<const std::pair<std::string, double>> phrases) {
  FindWords(graph);
  for (const auto& [phrase, bonus] : phrases) AddPhrase(graph, phrase, bonus);
  LimitBonuses(graph);
  Link();
}

void WordBias::FindWords(const Graph& graph) {
  for (size_t id = 1; id < graph.words().size(); ++id) ids_.emplace(graph.words()[id], static_cast<int32_t>(id));
  on_arcs_ = graph.SaidWords();
}

std::string WordBias::WhyNot(const Graph& graph, const std::string& word) const {
  const auto id = ids_.find(word);
  if (id == ids_.end()) {
    const std::string near = Nearest(word, graph.words());
    return fmt::format("'{}' is not in the graph's vocabulary{}", word,
                       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
  if (!on_arcs_[static_cast<size_t>(id->second)]) return fmt::format("the grammar never says '{}'", word);
  return "";
}

// Empty if one of the words cannot be said.
std::vector<int32_t> WordBias::IdsOf(const Graph& graph, const std::string& phrase, std::string& why_not) const {
  std::istringstream in(ComposeUtf8(phrase));
  std::vector<int32_t> ids;
  for (std::string word; in >> word;) {
    word = InKnownCase(word, [&](const std::string& name) { return ids_.contains(name); });
    why_not = WhyNot(graph, word);
    if (!why_not.empty()) return {};
    ids.push_back(ids_.find(word)->second);
  }
  return ids;
}

void WordBias::AddPhrase(const Graph& graph, const std::string& phrase, double bonus) {
  std::string why;
  const std::vector<int32_t> words = IdsOf(graph, phrase, why);
  if (!why.empty()) {
    remarks_.push_back(fmt::format("the phrase '{}' cannot be preferred: {}", phrase, why));
    return;
  }
  size_t at = 0;
  for (const int32_t word : words) {
    const auto [it, added] = nodes_[at].next.emplace(word, static_cast<int32_t>(nodes_.size()));
    const auto to = static_cast<size_t>(it->second);
    if (added) nodes_.emplace_back();
    // A word that several phrases share has the largest of their bonuses.
    nodes_[to].bonus = added ? static_cast<float>(bonus) : std::max(nodes_[to].bonus, static_cast<float>(bonus));
    at = to;
  }
  nodes_[at].ends = at != 0;
}

void WordBias::Allow(const Graph& graph, const WordBiasOptions& options) {
  std::vector<std::vector<int32_t>> phrases;
  bool others = false;
  const auto allow = [&](const std::string& phrase, const std::string& where) {
    std::string why;
    if (phrase == kOtherWords) {
      others = true;
    } else if (auto ids = IdsOf(graph, phrase, why); !ids.empty()) {
      phrases.push_back(std::move(ids));
    } else if (!why.empty()) {
      remarks_.push_back(fmt::format("{}'{}' cannot be recognised: {}", where, phrase, why));
    }
  };
  const std::string& file = options.word_list;
  if (!file.empty()) {
    for (const Line& line : ReadLines(file)) allow(line.text, fmt::format("'{}' line {}: ", file, line.number));
  }
  for (const std::string& phrase : options.words) allow(phrase, "");
  if (!phrases.empty() || others) return AllowAlone(graph, phrases, others);
  if (!file.empty()) Throw<InputError>("'{}' holds no word that the graph can give", file);
  Throw<InputError>("{}none of the {} words and phrases that are allowed can be recognised",
                    remarks_.empty() ? "" : remarks_.back() + "; ", options.words.size());
}

// Single words need to know nothing of those before.
void WordBias::AllowAlone(const Graph& graph, std::span<const std::vector<int32_t>> phrases, bool others) {
  const bool single = std::all_of(phrases.begin(), phrases.end(), [](const auto& ids) { return ids.size() == 1; });
  if (others || !single) {
    phrases_.emplace(phrases, others);
    if (phrases_->num_contexts() > std::numeric_limits<int32_t>::max() / std::ssize(nodes_)) {
      throw InputError("the phrases that alone are allowed, beside the hotwords, are too many: give fewer of either");
    }
    return;
  }
  allowed_.assign(graph.words().size(), false);
  allowed_[0] = true;
  for (const std::vector<int32_t>& ids : phrases) allowed_[static_cast<size_t>(ids.front())] = true;
}

void WordBias::LimitBonuses(const Graph& graph) {
  std::set<int32_t> preferred;
  for (const Node& node : nodes_) {
    for (const auto& [word, id] : node.next) {
      if (nodes_[static_cast<size_t>(id)].bonus > 0) preferred.insert(word);
    }
  }
  if (preferred.empty()) return;
  const std::map<int32_t, float> usual = UsualCosts(graph, preferred);
  std::map<int32_t, float> asked;  // of words whose bonus is too large
  for (const Node& node : nodes_) {
    for (const auto& [word, id] : node.next) {
      float& bonus = nodes_[static_cast<size_t>(id)].bonus;
      if (bonus <= 0) continue;
      const float most = MostBonus(usual.at(word));
      if (bonus <= most) continue;
      asked[word] = std::max(asked[word], bonus);
      bonus = most;
    }
  }
  for (const auto& [word, bonus] : asked) {
    remarks_.push_back(
        fmt::format("'{}' gets a bonus of {:.2f} instead of {:.2f}, as it costs only {:.2f} in this graph",
                    graph.words()[static_cast<size_t>(word)], MostBonus(usual.at(word)), bonus, usual.at(word)));
  }
}

// Breadth first, so that what a node falls back to is done before it.
void WordBias::Link() {
  std::deque<int32_t> waiting = {0};
  while (!waiting.empty()) {
    const auto from = static_cast<size_t>(waiting.front());
    waiting.pop_front();
    for (const auto& [word, id] : nodes_[from].next) {
      Node& node = nodes_[static_cast<size_t>(id)];
      node.score = nodes_[from].score + node.bonus;
      for (int32_t back = nodes_[from].fail; from != 0; back = nodes_[static_cast<size_t>(back)].fail) {
        const auto& next = nodes_[static_cast<size_t>(back)].next;
        if (const auto found = next.find(word); found != next.end()) {
          node.fail = found->second;
          break;
        }
        if (back == 0) break;
      }
      const float before = nodes_[from].kept;
      node.gain = node.ends ? node.score - before : nodes_[static_cast<size_t>(node.fail)].gain;
      node.kept = node.ends ? node.score : before + node.gain;
      // Shorter phrases that overlap may earn more together, but keep no more than was given so far.
      if (!node.ends && node.gain > 0) node.kept = std::min(node.kept, std::max(before, node.score));
      waiting.push_back(id);
    }
  }
}

double WordBias::LargestBonus() const {
  const auto less = [](const Node& a, const Node& b) { return a.bonus < b.bonus; };
  return std::max(0.0F, std::max_element(nodes_.begin(), nodes_.end(), less)->bonus);
}

float WordBias::FinalCost(int32_t context) const {
  if (!phrases_) return nodes_[static_cast<size_t>(context)].give_back();
  const auto nodes = static_cast<int32_t>(nodes_.size());
  return phrases_->FinalCost(context / nodes) + nodes_[static_cast<size_t>(context % nodes)].give_back();
}

WordBias::Step WordBias::Next(int32_t context, int32_t word) const {
  if (!allowed_.empty() && !allowed_[static_cast<size_t>(word)]) {
    return {0, std::numeric_limits<float>::infinity()};
  }
  if (!phrases_) return NextHotword(context, word);
  const auto nodes = static_cast<int32_t>(nodes_.size());
  const Step phrase = phrases_->Next(context / nodes, word);
  if (phrase.cost == std::numeric_limits<float>::infinity()) return phrase;
  const Step hotword = NextHotword(context % nodes, word);
  return {phrase.context * nodes + hotword.context, phrase.cost + hotword.cost};
}

// A hypothesis at a node has earned the node's score, and before it what phrases earn that do not lie within the node's
// words. Going on elsewhere, it has what is kept of the score; of that, what lies within the words that are gone on
// with is in the next node's score.
WordBias::Step WordBias::NextHotword(int32_t node, int32_t word) const {
  const Node& now = nodes_[static_cast<size_t>(node)];
  if (const auto found = now.next.find(word); found != now.next.end()) {
    return {found->second, -nodes_[static_cast<size_t>(found->second)].bonus};
  }
  for (int32_t back = now.fail; node != 0; back = nodes_[static_cast<size_t>(back)].fail) {
    const Node& suffix = nodes_[static_cast<size_t>(back)];
    if (const auto found = suffix.next.find(word); found != suffix.next.end()) {
      const float added = nodes_[static_cast<size_t>(found->second)].score - suffix.kept;
      return {found->second, now.give_back() - added};
    }
    if (back == 0) break;
  }
  return {0, now.give_back()};
}

}  // namespace antiphon::decode
