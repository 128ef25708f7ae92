// Looks for the sequence of methods that makes a model small and fast enough without losing more than is allowed.
//
// Methods are tried in groups, in an order in which they build upon one another (fewer frames, fewer nodes, lower
// ranks, fewer weights, fewer bits); within a group from mild to strong. A try stands on what was kept before it, is
// retrained and measured, and is kept if its error stays within what may be lost and it is faster than what was kept,
// or nearer to the budget; otherwise it is undone, and the reason is told. A loss beyond what is allowed ends a group.
// The search ends early when all budgets are met. Units: seconds per frame of scoring; bytes; errors as shares (word
// errors, or 1 − frame accuracy). Threads: one. Errors: those of the workshop; a try that a method refuses ("cannot be
// done") counts as undone, and the next of its group is tried: methods refuse what is too mild to change anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace antiphon::compress {

/// One method with its keys as TOML lines.
struct Move {
  std::string method;
  std::string keys;
  /// "svd size = 0.5".
  std::string Text() const;
};

/// "svd size = 0.5, then quantize", or "the model as it is".
std::string Text(const std::vector<Move>& moves);

struct Outcome {
  double error = 0;
  double seconds_per_frame = 0;
  int64_t bytes = 0;         // of weights, as the runtime holds them
  int64_t stream_bytes = 0;  // of memory for each stream beside the weights
};

/// What is asked for; 0: nothing.
struct Budget {
  double real_time_factor = 0;
  double frames_per_audio_second = 100;
  int64_t bytes = 0;
  int64_t stream_bytes = 0;
  double max_loss = 0.01;  // error may grow by this share of the uncompressed model's …
  double slack = 0;        // … and by this much in any case

  /// Largest ratio of what is needed to what is allowed; at most 1 if all is met, 0 if nothing is asked for.
  double Excess(const Outcome& outcome) const;
  bool Allows(const Outcome& full, const Outcome& outcome) const;
};

struct Try {
  std::vector<Move> moves;  // the last one is what was tried
  Outcome outcome;
  bool refused = false;  // there is no outcome
  bool kept = false;
  std::string verdict;
};

struct PlanResult {
  Outcome full;
  std::vector<Try> tries;
  std::vector<Move> chosen;
  Outcome outcome;  // of what was chosen
  bool met = false;
  std::string conclusion;
};

/// Applies, retrains, measures.
class Workshop {
 public:
  virtual ~Workshop() = default;
  /// No moves: the model as it is. All but the last move were measured before.
  virtual Outcome Measure(const std::vector<Move>& moves) = 0;
};

using Ladder = std::vector<std::vector<Move>>;
/// Groups for these methods, in the order in which they build upon one another; UsageError for one that has none.
Ladder StandardLadder(const std::vector<std::string>& methods);

PlanResult SearchPlan(Workshop& workshop, const Ladder& ladder, const Budget& budget);

/// Indices of the tries and the full model (−1) that no other beats in both error and seconds per frame, fastest first.
std::vector<int> ParetoFront(const PlanResult& result);

}  // namespace antiphon::compress
