#include "written/sentence_model.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "math/safetensors.h"

namespace antiphon::written {
namespace {

constexpr const char* kFormat = "antiphon-sentences-1";

// The last bytes of a word, which tell names and verbs apart in many languages.
std::string_view Ending(std::string_view word) { return word.substr(word.size() - std::min<size_t>(3, word.size())); }

std::string LengthClass(int words) { return std::to_string(std::min(words, 24) / 3); }

LinearClassifier ReadClassifier(const SafetensorsReader& file, const char* name, int num_classes) {
  std::vector<float> weights = file.ReadFloats(name);
  if (weights.empty() || weights.size() % static_cast<size_t>(num_classes) != 0) {
    Throw<InputError>("'{}': {} has {} values, which are not of {} classes", file.path().string(), name, weights.size(),
                      num_classes);
  }
  return LinearClassifier(num_classes, std::move(weights));
}

}  // namespace

SentenceModel::SentenceModel(int num_buckets) : marks_(kNumMarks, num_buckets), letters_(kNumLetters, num_buckets) {}

SentenceModel SentenceModel::Load(const std::filesystem::path& path) {
  const SafetensorsReader file(path);
  if (file.MetadataOr("format", "") != kFormat) {
    Throw<InputError>("'{}' is no model of sentences (antiphon written train makes one)", path.string());
  }
  SentenceModel model(1);
  model.marks_ = ReadClassifier(file, "marks", kNumMarks);
  model.letters_ = ReadClassifier(file, "letters", kNumLetters);
  std::istringstream lines(file.Metadata("spellings"));
  for (std::string word, spelling; lines >> word >> spelling;) model.spellings_.emplace(word, spelling);
  return model;
}

void SentenceModel::Save(const std::filesystem::path& path) const {
  SafetensorsWriter file;
  file.Add("marks", std::span<const float>(marks_.weights()));
  file.Add("letters", std::span<const float>(letters_.weights()));
  file.SetMetadata("format", kFormat);
  std::string spellings;
  for (const auto& [word, spelling] : spellings_) spellings += word + " " + spelling + "\n";
  file.SetMetadata("spellings", spellings);
  file.Write(path);
}

Features SentenceModel::MarkFeatures(const Around& a) const {
  const uint32_t n = marks_.num_buckets();
  return {BucketOf("always", "", "", n),
          BucketOf("word", a.word, "", n),
          BucketOf("after", a.after, "", n),
          BucketOf("word-after", a.word, a.after, n),
          BucketOf("before-word", a.before, a.word, n),
          BucketOf("before-after", a.before, a.after, n),
          BucketOf("first", a.first, "", n),
          BucketOf("first-after", a.first, a.after, n),
          BucketOf("length", LengthClass(a.words_in_sentence), "", n)};
}

Features SentenceModel::LetterFeatures(const Around& a) const {
  const uint32_t n = letters_.num_buckets();
  const std::string_view capital = a.capital_before ? "1" : "0";
  return {BucketOf("always", "", "", n),
          BucketOf("word", a.word, "", n),
          BucketOf("before-word", a.before, a.word, n),
          BucketOf("word-after", a.word, a.after, n),
          BucketOf("before", a.before, "", n),
          BucketOf("after", a.after, "", n),
          BucketOf("ending", Ending(a.word), capital, n),
          BucketOf("capital-word", capital, a.word, n)};
}

std::vector<double> SentenceModel::MarkBehind(const Around& around) const {
  return marks_.LogProbabilities(MarkFeatures(around));
}

std::vector<double> SentenceModel::LettersOf(const Around& around) const {
  return letters_.LogProbabilities(LetterFeatures(around));
}

std::string SentenceModel::Spelling(std::string_view word) const {
  const auto found = spellings_.find(word);
  return found == spellings_.end() ? "" : found->second;
}

}  // namespace antiphon::written
