// Back-off n-gram language models: ARPA files in and out, probabilities, perplexity.
//
// A model is a trie of n-grams. A *state* is a history: an n-gram shorter than the order (the root: no history). Log
// probabilities are natural inside, to base 10 in ARPA text. "<s>" begins, "</s>" ends a sentence; they are words like
// others.
//
// ARPA files may be unsorted, gzipped, lack back-off weights (taken as 0) and lack a prefix of an n-gram (taken as seen
// with the probability that backing off gives). Refused, with file:line: counts that differ from the header, repeated
// n-grams, words that are no unigram, positive log probabilities, a file without \end\.
//
// Threads: const methods may run together.
// Source: Katz, IEEE ASSP 1987; ARPA format as in Doug Paul's tools and SRILM's ngram-format(5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace antiphon::decode {

class NgramModel {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int kMaxOrder = 6;
  /// At or below this, a word cannot be said (ARPA's -99).
  static constexpr float kImpossible = -200.0F;

  /// Plain or gzipped.
  static NgramModel ReadArpa(const std::filesystem::path& path);
  /// `source` stands in for the file name in errors.
  static NgramModel ParseArpa(std::string_view text, const std::string& source);
  std::string ToArpa() const;

  /// An empty model to which words and n-grams are added; shorter n-grams first. Finish makes it usable.
  explicit NgramModel(int order);
  int32_t AddWord(std::string_view word);
  /// Natural logarithms. Throws InputError if the n-gram is there already.
  void AddNgram(std::span<const int32_t> words, float log_prob, float log_backoff);
  void Finish();

  int order() const { return order_; }
  const std::vector<std::string>& words() const { return words_; }
  /// −1 if unknown.
  int32_t WordId(std::string_view word) const;
  int64_t NumNgrams(int order) const;

  /// The history "<s>" (the root if the model lacks it).
  int32_t StartState() const;
  struct Transition {
    float log_prob;
    int32_t next_state;
  };
  /// log p(word | state) with back-off, and the history after it.
  Transition Step(int32_t state, int32_t word) const;
  /// log p(word | history), history oldest word first.
  float LogProb(std::span<const int32_t> history, int32_t word) const;

  // The trie, for conversion to a transducer. Nodes from 0 (the root); parents before children.
  struct Node {
    int32_t parent;
    int32_t word;
    int32_t backoff_node;  // longest proper suffix that is a node
    int32_t depth;         // number of words
    float log_prob;
    float log_backoff;
    bool has_children;
  };
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  int32_t FindChild(int32_t node, int32_t word) const;
  int32_t AddNode(int32_t parent, int32_t word);
  void FillMissingProbabilities();

  int order_;
  std::vector<std::string> words_;
  std::unordered_map<std::string, int32_t> word_ids_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> children_;  // (node, word) → node; only looked up
};

struct PerplexityResult {
  double log_prob = 0.0;  // nats, with the sentence ends
  int64_t words = 0;      // without sentence ends
  int64_t sentences = 0;
  int64_t oov_words = 0;      // left out of log_prob; the history is forgotten there
  double Perplexity() const;  // per word and sentence end, out-of-vocabulary words left out
};

PerplexityResult MeasurePerplexity(const NgramModel& model, const std::vector<std::vector<std::string>>& sentences);

}  // namespace antiphon::decode
