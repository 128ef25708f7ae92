// Which words are to be added to a recogniser, and how they sound: those of a file, of a program, of hotwords.
//
// Threads: const methods may run together. Errors: as pipeline/graph_changes.h.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decode/graph/graph.h"
#include "hmm/lexicon.h"
#include "pipeline/graph_changes.h"

namespace antiphon::pipeline {

/// A word that the lexicon may have in other letters, small or capital: as it has it, or as it is.
std::string AsTheLexiconWrites(const hmm::Lexicon& lexicon, const std::string& word);

class WordsToAdd {
 public:
  struct Word {
    std::string word;
    double weight = 1.0;
    std::string where;  // it was asked for
    bool is_hotword = false;
    bool has_new_sounds = false;  // that the graph's lexicon lacks
  };

  /// `graph` is in parts, with a lexicon. Phrases with a bonus above 0 are hotwords whose words may be lacking.
  WordsToAdd(const decode::Graph& graph, const GraphChanges& changes,
             const std::vector<std::pair<std::string, double>>& phrases);

  /// Each once. The lexicon has them, but for words of hotwords that nothing pronounces.
  const std::vector<Word>& words() const { return words_; }
  /// The graph's, with what is new behind its words.
  const std::shared_ptr<const hmm::Lexicon>& lexicon() const { return lexicon_; }

 private:
  struct Line {
    std::string word;
    std::vector<std::string> phones;
    double weight = 1.0;
    std::string where;
  };

  static std::vector<Line> ReadLines(const std::string& file);
  static std::vector<Line> LinesOf(const std::vector<WordToAdd>& words);
  static Line ParseLine(const std::string& text, const std::string& where);
  void Take(Line line);
  void TakeHotwords(const decode::Graph& graph, const std::vector<std::pair<std::string, double>>& phrases,
                    bool is_pronounced);
  Word& Find(const Line& line);
  void Pronounce(const std::string& g2p);
  void Tell(const hmm::Lexicon& lexicon) const;

  std::shared_ptr<const hmm::Lexicon> lexicon_;
  bool with_probabilities_ = false;
  std::vector<Word> words_;
  std::map<std::string, size_t> places_;  // in words_
  std::set<std::pair<std::string, std::vector<int32_t>>> taken_;
  std::string new_lines_;  // of the lexicon
};

}  // namespace antiphon::pipeline
