#include "compress/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"

namespace antiphon::compress {
namespace {

// Gains below this are noise of the measurement.
constexpr double kLeastGain = 0.03;

std::string Figures(const Outcome& o) {
  return fmt::format("error {:.2f} %, {:.0f} frames/s, {:.2f} MB", 100 * o.error, 1 / o.seconds_per_frame,
                     1e-6 * static_cast<double>(o.bytes));
}

double Gain(double before, double after) { return before > 0 ? 1 - after / before : 0; }

// Why `now` is kept or undone.
std::string Judge(const Outcome& full, const Outcome& base, const Outcome& now, const Budget& budget, bool* keep) {
  *keep = false;
  if (!budget.Allows(full, now)) {
    return fmt::format("undone: the error rises from {:.2f} to {:.2f} %, more than may be lost", 100 * full.error,
                       100 * now.error);
  }
  const double faster = Gain(base.seconds_per_frame, now.seconds_per_frame);
  const double smaller = Gain(static_cast<double>(base.bytes), static_cast<double>(now.bytes));
  if (faster < kLeastGain && Gain(budget.Excess(base), budget.Excess(now)) < kLeastGain) {
    return fmt::format("undone: no faster on this machine ({:.0f} frames/s, before {:.0f})", 1 / now.seconds_per_frame,
                       1 / base.seconds_per_frame);
  }
  *keep = true;
  return fmt::format("kept: {:+.0f} % time, {:+.0f} % size, error {:+.2f} points", -100 * faster, -100 * smaller,
                     100 * (now.error - base.error));
}

}  // namespace

std::string Move::Text() const {
  std::string text = method;
  for (const char c : keys.empty() ? keys : " " + keys) text += c == '\n' ? ' ' : c;
  return text;
}

double Budget::Excess(const Outcome& o) const {
  double excess = 0;
  if (real_time_factor > 0) excess = std::max(excess, o.seconds_per_frame * frames_per_audio_second / real_time_factor);
  if (bytes > 0) excess = std::max(excess, static_cast<double>(o.bytes) / static_cast<double>(bytes));
  if (stream_bytes > 0) {
    excess = std::max(excess, static_cast<double>(o.stream_bytes) / static_cast<double>(stream_bytes));
  }
  return excess;
}

std::string Text(const std::vector<Move>& moves) {
  std::string text;
  for (const Move& m : moves) text += (text.empty() ? "" : ", then ") + m.Text();
  return text.empty() ? "the model as it is" : text;
}

bool Budget::Allows(const Outcome& full, const Outcome& o) const {
  return o.error <= full.error * (1 + max_loss) + slack + 1e-12;
}

Ladder StandardLadder(const std::vector<std::string>& methods) {
  const Ladder all = {{{"multiframe", "frames = 2"}, {"multiframe", "frames = 4"}},
                      {{"prune-nodes", "share = 0.25"}, {"prune-nodes", "share = 0.5"}},
                      {{"svd", "size = 0.6"}, {"svd", "size = 0.3"}},
                      {{"circulant", "block = 8"}, {"circulant", "block = 16"}},
                      {{"prune", "block-rows = 16\nblock-cols = 4\nsparsity = 0.6"},
                       {"prune", "block-rows = 16\nblock-cols = 4\nsparsity = 0.8"}},
                      {{"quantize", ""}, {"quantize", "weight-bits = 4"}},
                      {{"binarize", ""}, {"binarize", "inputs = true"}}};
  std::vector<std::string> known;
  Ladder ladder;
  for (const std::vector<Move>& group : all) {
    known.push_back(group.front().method);
    if (std::find(methods.begin(), methods.end(), known.back()) != methods.end()) ladder.push_back(group);
  }
  for (const std::string& method : methods) {
    if (std::find(known.begin(), known.end(), method) == known.end()) {
      throw UsageError(UnknownNameMessage("method to try", method, known));
    }
  }
  return ladder;
}

PlanResult SearchPlan(Workshop& workshop, const Ladder& ladder, const Budget& budget) {
  PlanResult result;
  result.full = result.outcome = workshop.Measure({});
  const bool bounded = budget.Excess(result.full) > 0;
  const auto done = [&] { return bounded && budget.Excess(result.outcome) <= 1; };
  for (size_t group = 0; group < ladder.size() && !done(); ++group) {
    const std::vector<Move> base_moves = result.chosen;
    for (const Move& move : ladder[group]) {
      Try t;
      t.moves = base_moves;
      t.moves.push_back(move);
      try {
        t.outcome = workshop.Measure(t.moves);
        t.verdict = Judge(result.full, result.outcome, t.outcome, budget, &t.kept);
      } catch (const UsageError& e) {
        t.refused = true;
        t.verdict = fmt::format("cannot be done: {}", e.what());
      } catch (const InputError& e) {
        t.refused = true;
        t.verdict = fmt::format("cannot be done: {}", e.what());
      }
      result.tries.push_back(t);
      if (!t.kept) {
        // Stronger ones lose more; but what is no faster, or too mild to change anything, may be followed by what is.
        if (!t.refused && !budget.Allows(result.full, t.outcome)) break;
        continue;
      }
      result.chosen = t.moves;
      result.outcome = t.outcome;
      if (done()) break;
    }
  }
  result.met = budget.Excess(result.outcome) <= 1;
  const std::string what = Text(result.chosen);
  if (!bounded) {
    result.conclusion = fmt::format("{}: {}; before {}", what, Figures(result.outcome), Figures(result.full));
  } else if (result.met) {
    result.conclusion =
        fmt::format("the budget is met by {}: {}; before {}", what, Figures(result.outcome), Figures(result.full));
  } else {
    result.conclusion = fmt::format(
        "the budget cannot be met within the loss allowed; the closest, {} times over it, is {}: {}; before {}",
        fmt::format("{:.2f}", budget.Excess(result.outcome)), what, Figures(result.outcome), Figures(result.full));
  }
  return result;
}

std::vector<int> ParetoFront(const PlanResult& result) {
  std::vector<std::pair<const Outcome*, int>> all = {{&result.full, -1}};
  for (size_t i = 0; i < result.tries.size(); ++i) {
    if (!result.tries[i].refused) all.emplace_back(&result.tries[i].outcome, static_cast<int>(i));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first->seconds_per_frame < b.first->seconds_per_frame;
  });
  std::vector<int> front;
  double least = 2;
  for (const auto& [outcome, index] : all) {
    if (outcome->error >= least) continue;
    least = outcome->error;
    front.push_back(index);
  }
  return front;
}

}  // namespace antiphon::compress
