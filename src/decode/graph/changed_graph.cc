#include "decode/graph/changed_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"

namespace antiphon::decode {
namespace {

// Of running words, that a vocabulary of 20,000 lacks: minilibri's lexicon lacks 4.2 % of dev's and 3.2 % of test's.
constexpr double kShareOfNewWords = 0.04;
// English says some fifty words more often than so.
constexpr double kMostOfOneWord = 0.002;

// Of the larger lexicon: what is known of the old entries; pauses after the new ones are the mean.
hmm::PronunciationModel Enlarged(const hmm::PronunciationModel& model, const hmm::Lexicon& old,
                                 const hmm::Lexicon& lexicon) {
  hmm::PronunciationModel larger = model;
  larger.entries.clear();
  for (const hmm::Pronunciation& entry : lexicon.entries()) {
    const int32_t known = entry.word <= old.num_words() ? hmm::FindEntry(old, entry.word, entry.phones) : -1;
    if (known >= 0) {
      larger.entries.push_back(model.entries[static_cast<size_t>(known)]);
    } else {
      larger.entries.push_back(
          {.probability = std::exp(-static_cast<double>(entry.cost)), .pause_after = model.pause_overall});
    }
  }
  return larger;
}

}  // namespace

bool TakesWords(const WordAutomaton& words) {
  const int32_t base = words.base_state();
  if (words.ArcsOf(base).costs.empty()) return false;
  if (words.num_states() == 1 || base != words.start()) return true;
  // Models that know nothing of how sentences begin start with no history.
  for (int32_t state = 0; state < words.num_states(); ++state) {
    if (words.Backoff(state) == base) return true;
  }
  return false;
}

float OrdinaryWordCost(const WordAutomaton& words) {
  CHECK(TakesWords(words));
  const auto given = words.ArcsOf(words.base_state()).costs;
  std::vector<float> costs(given.begin(), given.end());
  const auto middle = costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2);
  std::nth_element(costs.begin(), middle, costs.end());
  return *middle;
}

float NewWordCost(const WordAutomaton& words, size_t count) {
  CHECK_GT(count, 0U);
  const double share = std::min(kShareOfNewWords / static_cast<double>(count), kMostOfOneWord);
  return std::min(static_cast<float>(-std::log(share)), OrdinaryWordCost(words));
}

Graph WithLexiconAndWords(const Graph& graph, const hmm::HmmModel& model, std::shared_ptr<const hmm::Lexicon> lexicon,
                          const std::optional<hmm::PronunciationModel>& pronunciations, WordAutomaton words,
                          const std::string& language_model) {
  const hmm::Lexicon& old = *graph.lexicon();
  if (lexicon->entries().size() == old.entries().size()) {
    return graph.WithParts(std::make_shared<const GraphParts>(graph.parts()->lexicon(), std::move(words)),
                           std::move(lexicon), language_model);
  }
  std::optional<hmm::PronunciationModel> larger;
  if (pronunciations) larger = Enlarged(*pronunciations, old, *lexicon);
  const GraphBuildOptions options = {.self_loop_scale = graph.info().self_loop_scale,
                                     .unknown_words = graph.info().unknown_words};
  LexiconGraph sounds = BuildLexiconGraph(model, *lexicon, options, larger ? &*larger : nullptr);
  return graph.WithParts(std::make_shared<const GraphParts>(std::move(sounds), std::move(words)), std::move(lexicon),
                         language_model);
}

}  // namespace antiphon::decode
