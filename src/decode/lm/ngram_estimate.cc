#include "decode/lm/ngram_estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "base/cancel.h"
#include "base/error.h"

namespace antiphon::decode {
namespace {

// Words beyond the order are −1, so that comparison of whole arrays groups n-grams by history.
using Gram = std::array<int32_t, NgramModel::kMaxOrder>;

struct Counted {
  Gram words;
  double count;
};

// Sorted, one entry per n-gram.
using CountTable = std::vector<Counted>;

CountTable Tally(std::vector<Gram> grams) {
  std::sort(grams.begin(), grams.end());
  CountTable table;
  for (const Gram& gram : grams) {
    if (table.empty() || table.back().words != gram) table.push_back({gram, 0.0});
    table.back().count += 1.0;
  }
  return table;
}

// Calls body(begin, end) for every run of n-grams that share the first `length` words.
template <class Body>
void ForEachHistory(const CountTable& table, int length, Body&& body) {
  for (auto begin = table.begin(); begin != table.end();) {
    auto end = begin;
    while (end != table.end() && std::equal(begin->words.begin(), begin->words.begin() + length, end->words.begin()))
      ++end;
    body(begin, end);
    begin = end;
  }
}

// How a history shares its mass between seen n-grams and the shorter history.
class Smoothing {
 public:
  virtual ~Smoothing() = default;
  /// The part of a seen n-gram's probability that is its own.
  virtual double Discounted(int order, double count) const = 0;
  /// Mass (in counts) left to the shorter history.
  virtual double Leftover(int order, CountTable::const_iterator begin, CountTable::const_iterator end) const = 0;
  virtual bool AddsLeftoverToTotal() const = 0;
};

class WittenBell : public Smoothing {
 public:
  double Discounted(int, double count) const override { return count; }
  double Leftover(int, CountTable::const_iterator begin, CountTable::const_iterator end) const override {
    return static_cast<double>(end - begin);
  }
  bool AddsLeftoverToTotal() const override { return true; }
};

class KneserNey : public Smoothing {
 public:
  explicit KneserNey(const std::vector<CountTable>& tables) {
    for (const CountTable& table : tables) {
      std::array<double, 5> n{};
      for (const Counted& c : table) {
        if (c.count <= 4) ++n[static_cast<size_t>(c.count)];
      }
      // Where counts of counts are missing (tiny or artificial texts), 0.5 is a fair discount.
      const double y = n[1] + 2 * n[2] > 0 ? n[1] / (n[1] + 2 * n[2]) : 0.0;
      const auto discount = [&](int k) {
        const double d = n[k] > 0 ? k - (k + 1) * y * n[k + 1] / n[k] : 0.5;
        return d > 0 && d < k ? d : 0.5;
      };
      discounts_.push_back({0.0, discount(1), discount(2), discount(3)});
    }
  }
  double Discounted(int order, double count) const override { return count - Discount(order, count); }
  double Leftover(int order, CountTable::const_iterator begin, CountTable::const_iterator end) const override {
    double sum = 0.0;
    for (auto it = begin; it != end; ++it) sum += Discount(order, it->count);
    return sum;
  }
  bool AddsLeftoverToTotal() const override { return false; }

 private:
  double Discount(int order, double count) const {
    return discounts_[order - 1][static_cast<size_t>(std::min(count, 3.0))];
  }
  std::vector<std::array<double, 4>> discounts_;
};

// The counts behind one history, and how much of them goes to the shorter one.
struct Shared {
  double total;
  double leftover;
};

class Estimator {
 public:
  Estimator(const std::vector<std::vector<std::string>>& sentences, const std::vector<std::string>& vocabulary,
            const NgramEstimateOptions& options)
      : options_(options), model_(options.order) {
    if (sentences.empty()) throw InputError("there are no sentences to estimate a language model from");
    // Sorted, so that the model does not depend on the order of the list.
    std::set<std::string> words(vocabulary.begin(), vocabulary.end());
    for (const auto& sentence : sentences) {
      if (vocabulary.empty()) words.insert(sentence.begin(), sentence.end());
    }
    for (const char* mark : {"<s>", "</s>"}) words.erase(mark);
    begin_ = model_.AddWord("<s>");
    end_ = model_.AddWord("</s>");
    for (const std::string& word : words) model_.AddWord(word);
    Count(sentences);
  }

  NgramModel Estimate() {
    if (options_.method == "kneser-ney") UseContinuationCounts();
    std::unique_ptr<Smoothing> smoothing = std::make_unique<WittenBell>();
    if (options_.method == "kneser-ney") smoothing = std::make_unique<KneserNey>(tables_);
    for (int order = 1; order <= options_.order; ++order) {
      ThrowIfCancelled("estimating n-grams");
      AddOrder(order, *smoothing);
    }
    model_.Finish();
    return std::move(model_);
  }

 private:
  void Count(const std::vector<std::vector<std::string>>& sentences) {
    const int32_t unknown = model_.WordId("<unk>");
    std::vector<std::vector<Gram>> grams(options_.order);
    std::vector<int32_t> ids;
    for (const auto& sentence : sentences) {
      ids.assign(1, begin_);
      for (const std::string& word : sentence) {
        const int32_t id = model_.WordId(word);
        ids.push_back(id >= 0 ? id : unknown);
      }
      ids.push_back(end_);
      for (size_t last = 1; last < ids.size(); ++last) {
        for (int order = 1; order <= options_.order && static_cast<size_t>(order) <= last + 1; ++order) {
          const auto* const first = &ids[last + 1 - order];
          if (*first < 0) break;
          Gram gram;
          gram.fill(-1);
          std::copy(first, first + order, gram.begin());
          grams[order - 1].push_back(gram);
        }
      }
    }
    for (int order = 1; order <= options_.order; ++order) {
      tables_.push_back(Tally(std::move(grams[order - 1])));
      const double least = order >= 3 && options_.method == "witten-bell" ? options_.min_count : 1;
      std::erase_if(tables_.back(), [&](const Counted& c) { return c.count < least; });
    }
  }

  // How many different words stand before an n-gram, instead of how often it stands in the text. All that are not in
  // the vocabulary are one: an n-gram behind them alone stays, as longer ones may begin with it.
  void UseContinuationCounts() {
    for (int order = 1; order < options_.order; ++order) {
      std::map<Gram, double> continuations;
      for (const Counted& longer : tables_[order]) {
        Gram gram;
        gram.fill(-1);
        std::copy(longer.words.begin() + 1, longer.words.begin() + 1 + order, gram.begin());
        continuations[gram] += 1.0;
      }
      for (Counted& c : tables_[order - 1]) {
        if (c.words[0] != begin_) c.count = std::max(1.0, continuations[c.words]);
      }
    }
  }

  void AddOrder(int order, const Smoothing& smoothing) {
    const CountTable& table = tables_[order - 1];
    std::map<Gram, Shared> followers;  // back-off weights of the n-grams of this order as histories
    if (order < options_.order) {
      ForEachHistory(tables_[order], order, [&](auto begin, auto end) {
        Gram history = begin->words;
        history[order] = -1;
        followers[history] = Share(order + 1, smoothing, begin, end);
      });
    }
    const auto backoff = [&](const Gram& gram) {
      const auto it = followers.find(gram);
      return it == followers.end() ? 0.0F : static_cast<float>(std::log(it->second.leftover / it->second.total));
    };
    if (order == 1) {
      AddUnigrams(table, smoothing, backoff);
      return;
    }
    ForEachHistory(table, order - 1, [&](auto begin, auto end) {
      const auto [total, leftover] = Share(order, smoothing, begin, end);
      for (auto it = begin; it != end; ++it) {
        const double shorter = Probability(std::span(it->words).subspan(1, order - 1));
        const double p = (smoothing.Discounted(order, it->count) + leftover * shorter) / total;
        AddNgram(std::span(it->words).first(order), p, backoff(it->words));
      }
    });
  }

  void AddUnigrams(const CountTable& table, const Smoothing& smoothing, const auto& backoff) {
    const auto num_words = static_cast<int32_t>(model_.words().size());
    std::vector<double> counts(num_words, 0.0);
    for (const Counted& c : table) counts[c.words[0]] = c.count;
    const auto [total, leftover] = Share(1, smoothing, table.begin(), table.end());
    for (int32_t word = 0; word < num_words; ++word) {
      Gram gram;
      gram.fill(-1);
      gram[0] = word;
      const double own = counts[word] > 0 ? smoothing.Discounted(1, counts[word]) : 0.0;
      // The vocabulary is all words but <s>.
      const double p = word == begin_ ? 0.0 : (own + leftover / (num_words - 1)) / total;
      AddNgram(std::span(gram).first(1), p, backoff(gram));
    }
  }

  static Shared Share(int order, const Smoothing& smoothing, CountTable::const_iterator begin,
                      CountTable::const_iterator end) {
    Shared share{0.0, smoothing.Leftover(order, begin, end)};
    for (auto it = begin; it != end; ++it) share.total += it->count;
    if (smoothing.AddsLeftoverToTotal()) share.total += share.leftover;
    return share;
  }

  void AddNgram(std::span<const int32_t> words, double probability, float backoff) {
    std::vector<int32_t> key(words.begin(), words.end());
    probabilities_[key] = probability;
    backoffs_[key] = std::exp(static_cast<double>(backoff));
    model_.AddNgram(words, probability > 0 ? static_cast<float>(std::log(probability)) : NgramModel::kImpossible,
                    backoff);
  }

  // Of the last word behind the ones before it, by what is in already, in double precision.
  double Probability(std::span<const int32_t> words) const {
    std::vector<int32_t> key(words.begin(), words.end());
    if (const auto it = probabilities_.find(key); it != probabilities_.end()) return it->second;
    const std::vector<int32_t> history(key.begin(), key.end() - 1);
    const auto it = backoffs_.find(history);
    return (it == backoffs_.end() ? 1.0 : it->second) * Probability(words.subspan(1));
  }

  NgramEstimateOptions options_;
  NgramModel model_;
  int32_t begin_ = 0, end_ = 0;
  std::vector<CountTable> tables_;
  std::map<std::vector<int32_t>, double> probabilities_, backoffs_;
};

}  // namespace

NgramModel EstimateNgram(const std::vector<std::vector<std::string>>& sentences,
                         const std::vector<std::string>& vocabulary, const NgramEstimateOptions& options) {
  return Estimator(sentences, vocabulary, options).Estimate();
}

}  // namespace antiphon::decode
