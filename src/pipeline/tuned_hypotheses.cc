#include "pipeline/tuned_hypotheses.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "decode/lattice/lattice_text.h"
#include "decode/lattice/minimum_bayes_risk.h"
#include "pipeline/chosen_weights.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// By id; "WORD ID" per line.
std::vector<std::string> ReadWords(const fs::path& path) {
  std::istringstream lines(ReadFile(path));
  std::vector<std::string> words;
  std::string word;
  for (size_t id = 0; lines >> word >> id;) {
    if (id != words.size()) {
      Throw<InputError>("'{}': word '{}' has number {}, expected {}", path.string(), word, id, words.size());
    }
    words.push_back(word);
  }
  return words;
}

// Piece by piece, as the weights were chosen: what is expected of all words of a long recording at once would fill the
// memory.
std::vector<int32_t> ChosenWords(const decode::Lattice& lattice, const decode::LatticeWeights& weights) {
  std::vector<int32_t> words;
  for (const decode::Lattice& piece : decode::SplitPieces(lattice)) {
    const std::vector<int32_t> of_piece = decode::ChosenPath(piece, weights).words;
    words.insert(words.end(), of_piece.begin(), of_piece.end());
  }
  return words;
}

}  // namespace

bool ChoseWeights(const fs::path& folder) { return fs::exists(folder / "weights.toml"); }

score::Transcripts TunedHypotheses(const fs::path& folder, const fs::path& graph) {
  const std::vector<std::string> words = ReadWords(graph / "words.txt");
  const decode::LatticeWeights weights = ReadChosenWeights(folder / "weights.toml").weights();
  const fs::path file = folder / "lattices.gz";
  score::Transcripts tuned = score::ReadTranscripts(folder / "text");
  std::set<std::string> without;
  for (auto& [utt_id, found] : tuned.words) {
    found.clear();
    without.insert(utt_id);
  }
  for (const auto& [utt_id, lattice] : decode::ParseLattices(ReadMaybeGzipped(file), file.string())) {
    without.erase(utt_id);
    for (const int32_t word : ChosenWords(lattice, weights)) {
      if (word < 0 || static_cast<size_t>(word) >= words.size()) {
        Throw<InputError>("'{}', utterance '{}': word {} is not in '{}'; is it the graph that was decoded with?",
                          file.string(), utt_id, word, (graph / "words.txt").string());
      }
      tuned.words[utt_id].push_back(words[static_cast<size_t>(word)]);
    }
  }
  if (!without.empty()) {
    Throw<InputError>("'{}' has no lattice of utterance '{}', which is in '{}'", file.string(), *without.begin(),
                      (folder / "text").string());
  }
  return tuned;
}

}  // namespace antiphon::pipeline
