#include "report/pages/scoring_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace antiphon::report {
namespace {

std::string Rate(const score::SpeakerScore& score) {
  return score.utterances == 0 ? "–" : fmt::format("{:.2f} %", 100 * score.counts.Rate());
}

std::string Interval(const score::Report& report) {
  if (report.total.utterances == 0) return "no utterances to score";
  return fmt::format("{:.2f} – {:.2f} % with {:.0f} % confidence", 100 * report.interval_low,
                     100 * report.interval_high, 100 * report.confidence);
}

void AddScores(report::HtmlReport& page, const std::vector<ScoredSet>& sets) {
  std::vector<report::Figure> figures;
  for (const ScoredSet& set : sets) {
    figures.push_back({fmt::format("{} error rate, {}", set.report.unit == "word" ? "Word" : "Character", set.name),
                       Rate(set.report.total), Interval(set.report)});
  }
  page.AddFigures(figures);
}

std::vector<std::string> Row(std::string name, const score::SpeakerScore& score) {
  const score::ErrorCounts& c = score.counts;
  return {std::move(name),
          Rate(score),
          fmt::format("{}", c.errors()),
          fmt::format("{}", c.reference_length()),
          fmt::format("{}", c.substitutions),
          fmt::format("{}", c.deletions),
          fmt::format("{}", c.insertions),
          fmt::format("{} of {}", score.wrong_utterances, score.utterances)};
}

void AddTables(report::HtmlReport& page, const std::vector<ScoredSet>& sets) {
  report::Table table;
  table.title = "Error rates";
  table.header = {"set",         "rate",    "errors",   "in the reference",
                  "substituted", "deleted", "inserted", "utterances with errors"};
  table.numeric = std::vector<bool>(table.header.size(), true);
  table.numeric[0] = false;
  report::Table speakers = table;
  speakers.title = "Speakers";
  speakers.header[0] = "speaker";
  for (const ScoredSet& set : sets) {
    table.rows.push_back(Row(set.name, set.report.total));
    for (const auto& [speaker, score] : set.report.speakers) {
      speakers.rows.push_back(Row(sets.size() > 1 ? fmt::format("{} ({})", speaker, set.name) : speaker, score));
    }
  }
  page.AddTable(table, true);
  if (!speakers.rows.empty()) page.AddTable(speakers, true);
}

AlignedText Aligned(const score::UtteranceScore& utterance) {
  AlignedText text;
  text.name = utterance.utt_id;
  const score::ErrorCounts& counts = utterance.alignment.counts;
  text.remark = fmt::format("{} error(s) in {}", counts.errors(), counts.reference_length());
  size_t said = 0;
  size_t heard = 0;
  for (const score::Edit edit : utterance.alignment.edits) {
    const std::string reference = edit != score::Edit::kInsertion ? utterance.reference.at(said++) : "";
    const std::string hypothesis = edit != score::Edit::kDeletion ? utterance.hypothesis.at(heard++) : "";
    const AlignedText::Kind kind = edit == score::Edit::kCorrect        ? AlignedText::Kind::kCorrect
                                   : edit == score::Edit::kSubstitution ? AlignedText::Kind::kSubstitution
                                   : edit == score::Edit::kInsertion    ? AlignedText::Kind::kInsertion
                                                                        : AlignedText::Kind::kDeletion;
    text.words.push_back({kind, reference, hypothesis});
  }
  return text;
}

void AddExamples(report::HtmlReport& page, const ScoredSet& set, int examples) {
  std::vector<const score::UtteranceScore*> wrong;
  for (const score::UtteranceScore& utterance : set.report.utterances) {
    if (utterance.alignment.counts.errors() > 0) wrong.push_back(&utterance);
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const auto* a, const auto* b) {
    return a->alignment.counts.errors() > b->alignment.counts.errors();
  });
  if (wrong.size() > static_cast<size_t>(examples)) wrong.resize(static_cast<size_t>(examples));
  std::vector<AlignedText> texts;
  for (const auto* utterance : wrong) texts.push_back(Aligned(*utterance));
  if (!texts.empty()) page.AddAlignedTexts(fmt::format("Utterances with most errors: {}", set.name), texts);
}

// Which words are taken for which, over all sets.
void AddCommonErrors(report::HtmlReport& page, const std::vector<ScoredSet>& sets) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const ScoredSet& set : sets) {
    for (const score::UtteranceScore& utterance : set.report.utterances) {
      for (const auto& word : Aligned(utterance).words) {
        if (word.kind != AlignedText::Kind::kCorrect) ++counts[{word.reference, word.hypothesis}];
      }
    }
  }
  std::vector<std::pair<std::pair<std::string, std::string>, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (sorted.size() > 40) sorted.resize(40);
  report::Table table{
      .title = "Commonest errors", .header = {"said", "recognised", "times"}, .numeric = {false, false, true}};
  for (const auto& [pair, count] : sorted) {
    table.rows.push_back(
        {pair.first.empty() ? "–" : pair.first, pair.second.empty() ? "–" : pair.second, fmt::format("{}", count)});
  }
  if (!table.rows.empty()) page.AddTable(table, true);
}

}  // namespace

void AddScoringSections(report::HtmlReport& page, const std::vector<ScoredSet>& sets, int examples) {
  if (sets.empty()) return;
  AddScores(page, sets);
  page.AddSection("What it recognised");
  AddTables(page, sets);
  for (const ScoredSet& set : sets) AddExamples(page, set, examples);
  AddCommonErrors(page, sets);
}

}  // namespace antiphon::report
