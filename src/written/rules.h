// Rules that write spoken words as people write them ("twenty five dollars": "$25"), as transducers over bytes.
//
// Any OpenFst transducer with arcs of the standard kind serves whose labels are bytes of UTF-8: what BuildRules makes,
// and what pynini and Thrax compile in byte mode. It reads a phrase, words in small letters with one blank between
// them, and writes what stands for it. Among several ways to read a phrase the cheapest counts; of phrases that begin
// with the same word the longest.
//
// Threads: const methods may run together. Errors: InputError naming the file.
#pragma once

#include <fst/fst-decl.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace antiphon::written {

class Rules {
 public:
  /// `source` stands for the file in errors.
  Rules(const fst::StdVectorFst& rules, const std::string& source);
  static Rules Load(const std::filesystem::path& file);
  /// Those that come with the program, for English.
  static Rules English();

  struct Match {
    int num_words = 0;
    std::string text;
    float cost = 0.0F;
  };
  struct Result {
    std::optional<Match> match;  // of the first words
    bool open = false;           // more words behind the last could make a longer phrase
  };
  Result Read(std::span<const std::string> words) const;

  void Save(const std::filesystem::path& file) const;

 private:
  struct Place {
    float cost;
    std::string text;
  };
  using Places = std::vector<std::pair<int, Place>>;

  void AddReachable(Places& places) const;
  Places Follow(const Places& places, std::string_view bytes) const;

  std::shared_ptr<const fst::StdVectorFst> rules_;
};

}  // namespace antiphon::written
