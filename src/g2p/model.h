// Pronunciations of words that no lexicon has, by a joint-sequence model that was trained on a lexicon.
//
//   const g2p::Model model = g2p::Model::Load("english.g2p");
//   for (const g2p::Guess& guess : model.Pronounce("antiphony", {.nbest = 3})) …
//
// File: safetensors with the letters, phones and units in its metadata, and the n-gram (unit_ngram.h). It carries a
// checksum: a file that was changed or cut short is refused.
// Units: probabilities are posteriors, given the word. Threads: const methods may run together.
// Errors: InputError naming the file, or the word and its unknown letters.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace antiphon::g2p {

struct Unit;
class UnitNgram;

struct PronounceOptions {
  int nbest = 1;
  double least_probability = 0.0;
  double beam = 10.0;

  template <class V>
  void Visit(V& v) {
    v("nbest", nbest, Range{1, 1000}, "pronunciations per word, at most");
    v("least-probability", least_probability, Range{0.0, 1.0},
      "leave out pronunciations that are less probable, but never the best");
    VisitSearch(v);
  }
  template <class V>
  void VisitSearch(V& v) {
    v("beam", beam, Range{1.0, 1e9}, "nats that a beginning may be worse than the best of its length");
  }
};

struct Guess {
  std::vector<std::string> phones;  // at least one
  double probability = 0.0;         // of all that the word may be pronounced as
};

class Model {
 public:
  /// What train.h makes.
  struct Parts;
  explicit Model(Parts parts);
  static Model Load(const std::filesystem::path& path);
  void Save(const std::filesystem::path& path) const;

  /// Best first, at least one. A word with letters that the model does not know is taken in lower or upper case if it
  /// knows all of those; else InputError names the letters.
  std::vector<Guess> Pronounce(std::string_view word, const PronounceOptions& options = {}) const;

  const std::vector<std::string>& letters() const;
  const std::vector<std::string>& phones() const;
  const std::vector<Unit>& units() const;
  const UnitNgram& ngram() const;
  /// What it was trained on and how, as a JSON object.
  const std::string& description() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Whether the file has the ending by which such models are known, .g2p.
bool IsModelFile(const std::filesystem::path& path);

}  // namespace antiphon::g2p
