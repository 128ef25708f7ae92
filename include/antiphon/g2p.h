// Pronunciations of words that no lexicon has (grapheme to phoneme).
//
//   antiphon::TrainG2p("lang/lexicon.txt", "lang/english.g2p");
//   const antiphon::G2p g2p("lang/english.g2p");
//   for (const antiphon::PronunciationGuess& guess : g2p.Pronounce("quokka", {.nbest = 3})) Use(guess.phones);
//
// Units: probabilities, 0 … 1, are of a pronunciation given its word. Text is UTF-8; a letter is a code point of form
// C. Ownership: copies of a G2p share all, and moving one copies it; what Letters and Phones refer to lives as long as
// one of them. Threads: a G2p may be used by many threads at once.
// Errors: antiphon::Error (antiphon/error.h): kInput naming the file, or the word and its unknown letters; kUsage for
// settings that cannot be; kIo.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

struct G2pSettings {
  int nbest = 1;                   // pronunciations per word, at most
  double least_probability = 0.0;  // less probable ones are left out, but never the best
};

struct PronunciationGuess {
  std::vector<std::string> phones;  // at least one
  double probability = 0.0;

  bool operator==(const PronunciationGuess&) const = default;
};

class ANTIPHON_API G2p {
 public:
  /// `model`: what `antiphon g2p train` or TrainG2p wrote, or a bundle that has such a model.
  explicit G2p(const std::string& model);
  G2p(const G2p&) = default;
  G2p& operator=(const G2p&) = default;
  ~G2p() = default;

  /// Best first, at least one. A word with unknown letters is taken in lower or upper case if all are known in that.
  std::vector<PronunciationGuess> Pronounce(std::string_view word, const G2pSettings& settings = {}) const;

  /// That words may have.
  const std::vector<std::string>& Letters() const;
  const std::vector<std::string>& Phones() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Learns from a lexicon (WORD PHONE … per line) and writes `out`, NAME.g2p. `options`: those of `antiphon g2p train`,
/// as TOML: "order = 4".
ANTIPHON_API void TrainG2p(const std::string& lexicon, const std::string& out, const std::string& options = "",
                           int threads = 0);

}  // namespace antiphon
