// Recognised words with their times, as people write them (written/written_form.h).
//
// Units: seconds. Threads: pure functions. Errors: InputError naming the file; UsageError for a bundle that has none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/graph/graph.h"
#include "written/written_form.h"

namespace antiphon::pipeline {

/// The value of --written that means the bundle's own.
inline constexpr char kBundlesWritten[] = "bundle";

/// What `given` names: "" (null), "bundle" (`of_bundle`), or what written::FilesOf takes. The recogniser's words say
/// whether large letters mean anything.
std::shared_ptr<const written::WrittenForm> LoadWrittenForm(const std::string& given,
                                                            const std::vector<std::string>& of_bundle,
                                                            const decode::Graph& graph);

struct TimedToken {
  std::string text;
  double start_s = 0.0;
  double end_s = 0.0;
  double confidence = -1.0;  // −1: not known
};

/// Each token with the times of its words, and the lowest of their confidences.
std::vector<TimedToken> WrittenWords(const written::WrittenForm& form, std::span<const TimedToken> words, bool ended);

/// With blanks between.
std::string TextOf(std::span<const TimedToken> tokens);

}  // namespace antiphon::pipeline
