// Pronunciations of a small model, against the sum over all ways to cut a word; files that come back, and damaged ones.
#include "g2p/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "g2p/evaluate.h"
#include "g2p/train.h"
#include "g2p/unit_aligner.h"
#include "g2p/unit_ngram.h"
#include "math/safetensors.h"
#include "temporary_folder.h"
#include "toy_language.h"

namespace antiphon::g2p {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model SmallModel(int order = 3) { return Train(ToyEntries(60, 5), {.order = order}, 1).model; }

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(G2p, LearnsALanguageOfRulesExactly) {
  const Model model = Train(ToyEntries(3000, 1), {}, 2).model;
  const Evaluation evaluation = Evaluate(model, ToyEntries(500, 2), {}, 2);
  EXPECT_GT(evaluation.words, 300);
  EXPECT_EQ(evaluation.wrong_words, 0);
  EXPECT_EQ(evaluation.phone_errors, 0);
}

TEST(G2p, HistoriesHaveProbabilitiesThatSumToOne) {
  const Model model = SmallModel();
  const UnitNgram& ngram = model.ngram();
  std::vector<int32_t> states = {ngram.start(), UnitNgram::kRoot};
  for (size_t s = 0; s < states.size(); ++s) {
    double sum = std::exp(ngram.End(states[s]));
    for (int32_t unit = 0; unit < std::ssize(model.units()); ++unit) {
      const auto step = ngram.Next(states[s], unit);
      sum += std::exp(static_cast<double>(step.log_prob));
      if (std::find(states.begin(), states.end(), step.state) == states.end()) states.push_back(step.state);
    }
    EXPECT_NEAR(sum, 1.0, 3e-3) << s;  // half precision
  }
  EXPECT_GT(states.size(), 20U);
}

// All ways to say a word, by phones.
void SayAll(const Model& model, const std::vector<int32_t>& letters, size_t at, int32_t state, double log_prob,
            std::vector<std::string> said, std::map<std::vector<std::string>, double>& sums) {
  if (at == letters.size()) sums[said] += std::exp(log_prob + model.ngram().End(state));
  for (size_t u = 0; u < model.units().size(); ++u) {
    const Unit& unit = model.units()[u];
    if (at + unit.letters.size() > letters.size() ||
        !std::equal(unit.letters.begin(), unit.letters.end(), letters.begin() + static_cast<std::ptrdiff_t>(at))) {
      continue;
    }
    std::vector<std::string> longer = said;
    for (const int32_t phone : unit.phones) longer.push_back(model.phones()[static_cast<size_t>(phone)]);
    const auto step = model.ngram().Next(state, static_cast<int32_t>(u));
    SayAll(model, letters, at + unit.letters.size(), step.state, log_prob + step.log_prob, longer, sums);
  }
}

TEST(G2p, ProbabilitiesAreThoseOfAllCuts) {
  const Model model = SmallModel();
  for (const std::string word : {"c", "e", "she", "coxe", "shice"}) {
    std::vector<int32_t> letters;
    for (const std::string& letter : LettersOf(word)) {
      const auto it = std::find(model.letters().begin(), model.letters().end(), letter);
      letters.push_back(static_cast<int32_t>(it - model.letters().begin()));
    }
    std::map<std::vector<std::string>, double> sums;
    SayAll(model, letters, 0, model.ngram().start(), 0.0, {}, sums);
    sums.erase(std::vector<std::string>());
    double total = 0, found = 0;
    for (const auto& [phones, sum] : sums) total += sum;
    const std::vector<Guess> guesses = model.Pronounce(word, {.nbest = 1000, .beam = 1e9});
    ASSERT_EQ(guesses.size(), sums.size()) << word;
    for (size_t i = 0; i < guesses.size(); ++i) {
      EXPECT_NEAR(guesses[i].probability, sums.at(guesses[i].phones) / total, 1e-5) << word;
      if (i > 0) {
        EXPECT_LE(guesses[i].probability, guesses[i - 1].probability);
      }
      found += guesses[i].probability;
    }
    EXPECT_NEAR(found, 1.0, 1e-5) << word;
  }
}

TEST(G2p, NbestAndLeastProbabilityLimitTheGuesses) {
  const Model model = SmallModel();
  EXPECT_EQ(model.Pronounce("sheca", {.nbest = 1}).size(), 1U);
  EXPECT_EQ(model.Pronounce("sheca", {.nbest = 4}).size(), 4U);
  const auto likely = model.Pronounce("sheca", {.nbest = 4, .least_probability = 1.0});
  ASSERT_EQ(likely.size(), 1U);
  EXPECT_EQ(likely[0].phones, model.Pronounce("sheca")[0].phones);
}

TEST(G2p, ModelComesBackBitForBit) {
  const testing::TemporaryFolder folder;
  const Model model = SmallModel(4);
  model.Save(folder / "a.g2p");
  const Model back = Model::Load(folder / "a.g2p");
  back.Save(folder / "b.g2p");
  EXPECT_TRUE(ReadFile(folder / "a.g2p") == ReadFile(folder / "b.g2p"));
  for (const std::string& word : ToyWords(50, 9)) {
    const auto a = model.Pronounce(word, {.nbest = 5}), b = back.Pronounce(word, {.nbest = 5});
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].phones, b[i].phones);
      EXPECT_EQ(a[i].probability, b[i].probability);
    }
  }
}

TEST(G2p, TrainingDoesNotDependOnThreads) {
  const testing::TemporaryFolder folder;
  Train(ToyEntries(200, 3), {}, 1).model.Save(folder / "a.g2p");
  Train(ToyEntries(200, 3), {}, 3).model.Save(folder / "b.g2p");
  EXPECT_TRUE(ReadFile(folder / "a.g2p") == ReadFile(folder / "b.g2p"));
}

TEST(G2p, DamagedFilesAreRefusedByName) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "a.g2p";
  SmallModel().Save(path);
  const std::string bytes = ReadFile(path);
  for (const size_t at : {size_t{0}, bytes.size() / 3, bytes.size() / 2, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    WriteFileAtomically(path, changed);
    EXPECT_THAT(ErrorOf([&] { Model::Load(path); }), HasSubstr("a.g2p")) << at;
    WriteFileAtomically(path, std::string_view(bytes).substr(0, at));
    EXPECT_THAT(ErrorOf([&] { Model::Load(path); }), HasSubstr("a.g2p")) << at;
  }
}

// A model's tensors and metadata as they are, but for what `change` does to them: with a right checksum.
void Rewrite(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& key,
             const std::string& value) {
  const SafetensorsReader reader(from);
  SafetensorsWriter writer;
  for (const std::string& name : reader.Names()) {
    if (name == key) continue;
    const TensorView& tensor = reader.Tensor(name);
    writer.Add(name, tensor.type, tensor.shape, tensor.data);
  }
  for (const auto& [name, text] : reader.metadata()) writer.SetMetadata(name, name == key ? value : text);
  writer.Write(to);
}

TEST(G2p, FilesThatContradictThemselvesAreRefused) {
  const testing::TemporaryFolder folder;
  SmallModel().Save(folder / "a.g2p");
  const auto error = [&](const std::string& key, const std::string& value) {
    Rewrite(folder / "a.g2p", folder / "b.g2p", key, value);
    return ErrorOf([&] { Model::Load(folder / "b.g2p"); });
  };
  EXPECT_THAT(error("format", "antiphon-model"), AllOf(HasSubstr("b.g2p"), HasSubstr("no grapheme-to-phoneme model")));
  EXPECT_THAT(error("version", "2"), AllOf(HasSubstr("b.g2p"), HasSubstr("version 2")));
  EXPECT_THAT(error("order", "7"), HasSubstr("n-grams have 7"));
  EXPECT_THAT(error("order", "2"), HasSubstr("b.g2p"));
  EXPECT_THAT(error("letters", "[\"a\"]"), HasSubstr("not there"));
  EXPECT_THAT(error("phones", "[\"A\", \"A\"]"), HasSubstr("not all different"));
  EXPECT_THAT(error("units", "[]"), HasSubstr("letters without a unit"));
  EXPECT_THAT(error("units", "{"), HasSubstr("not understood"));
  EXPECT_THAT(error("ngram.trie", ""), HasSubstr("ngram.trie"));
}

TEST(G2p, NamesUnknownLetters) {
  const Model model = SmallModel();
  EXPECT_THAT(ErrorOf([&] { model.Pronounce("shüßü"); }),
              AllOf(HasSubstr("shüßü"), HasSubstr("'ü' (U+00FC), 'ß' (U+00DF)")));
  EXPECT_THAT(ErrorOf([&] { model.Pronounce(""); }), HasSubstr("without letters"));
}

TEST(G2p, TakesTheCaseThatItKnows) {
  const Model model = SmallModel();
  EXPECT_EQ(model.Pronounce("SHECA")[0].phones, model.Pronounce("sheca")[0].phones);
}

TEST(G2p, LearnsOtherScripts) {
  // An accent of its own or within the letter is the same; one sign can be a whole syllable.
  std::vector<Entry> entries = {{"e\u0301", {"e"}}, {"語", {"g", "o", "t", "a", "n"}}};
  const std::vector<std::pair<std::string, std::string>> sounds = {{"д", "d"}, {"м", "m"}, {"о", "o"}, {"а", "a"}};
  for (const auto& a : sounds) {
    for (const auto& b : sounds) {
      for (const auto& c : sounds) {
        entries.push_back({a.first + b.first + c.first, {a.second, b.second, c.second}});
      }
    }
  }
  const Trained trained = Train(entries, {.order = 2}, 1);
  EXPECT_EQ(trained.report.max_phones, 5);
  EXPECT_THAT(trained.model.Pronounce("мода")[0].phones, ElementsAre("m", "o", "d", "a"));
  EXPECT_THAT(trained.model.Pronounce("\u00e9")[0].phones, ElementsAre("e"));
  EXPECT_THAT(trained.model.Pronounce("語")[0].phones, ElementsAre("g", "o", "t", "a", "n"));
}

TEST(G2p, LeavesOutWhatIsNotSpelt) {
  const hmm::Lexicon lexicon =
      hmm::Lexicon::Parse("<UNK> SPN\nhm SPN\n[laugh] HH\ncat K AE T\ncat K AA T\nwww D AH B AH L Y UW W W\n", "x");
  const Entries entries = EntriesOf(lexicon);
  EXPECT_THAT(entries.left_out, ElementsAre("<UNK>", "hm", "[laugh]"));
  const Trained trained = Train(entries.spoken, {.max_phones = 2}, 1);
  EXPECT_THAT(trained.report.uncut, ElementsAre("www"));
  EXPECT_EQ(trained.report.words, 2);
  EXPECT_EQ(trained.report.pronunciations, 3);
  const testing::TemporaryFolder folder;
  trained.model.Save(folder / "x.g2p");
  EXPECT_EQ(Model::Load(folder / "x.g2p").Pronounce("cat").size(), trained.model.Pronounce("cat").size())
      << "letters of what cannot be cut are none of the model's";
  EXPECT_THAT(ErrorOf([] { Train({}, {}, 1); }), HasSubstr("no pronunciations to learn from"));
}

TEST(G2p, PrunedModelsAreSmallerAndStillWhole) {
  const testing::TemporaryFolder folder;
  Train(ToyEntries(1000, 1), {.order = 4}, 1).model.Save(folder / "all.g2p");
  Train(ToyEntries(1000, 1), {.order = 4, .prune = 1e-4}, 1).model.Save(folder / "few.g2p");
  EXPECT_LT(std::filesystem::file_size(folder / "few.g2p"), std::filesystem::file_size(folder / "all.g2p") * 3 / 4);
  EXPECT_LT(Evaluate(Model::Load(folder / "few.g2p"), ToyEntries(200, 2), {}, 1).word_error(), 0.02);
}

TEST(G2p, KeepsWordsApartWhole) {
  const auto [apart, rest] = KeepApart(ToyEntries(500, 4), 0.2);
  EXPECT_EQ(apart.size() + rest.size(), 500U);
  EXPECT_NEAR(static_cast<double>(apart.size()), 100, 40);
  for (const Entry& a : apart) {
    EXPECT_TRUE(std::none_of(rest.begin(), rest.end(), [&](const Entry& b) { return a.word == b.word; })) << a.word;
  }
}

}  // namespace
}  // namespace antiphon::g2p
