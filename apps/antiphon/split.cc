// antiphon split: divides a data directory into two, whole speakers at a time.
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "base/same_place.h"
#include "command.h"
#include "data/data_dir.h"

namespace antiphon::app {
namespace {

struct SplitCommandOptions {
  std::string data;
  std::string rest;
  std::string held_out;
  double fraction = 0.1;
  std::string by = "speaker";
  data::DataDirOptions dir;

  template <class V>
  void Visit(V& v) {
    v("data", data, "data directory to divide");
    v("rest", rest, "folder for what stays");
    v("held-out", held_out, "folder for what is held out");
    v("fraction", fraction, Range{0.0001, 0.9999}, "share of the speech to hold out");
    v("by", by, OneOf{{"speaker", "utterance"}},
      "whole speakers (else results flatter the recogniser), or single utterances where there is one speaker only");
    dir.Visit(v);
  }
};

std::pair<data::DataDir, data::DataDir> SplitByUtterance(const data::DataDir& dir, double fraction, uint64_t seed) {
  std::vector<size_t> order(dir.utterances().size());
  std::iota(order.begin(), order.end(), size_t{0});
  Rng(seed).Shuffle(std::span(order));
  const auto count = static_cast<size_t>(fraction * static_cast<double>(order.size()) + 0.5);
  if (count == 0 || count == order.size()) {
    Throw<InputError>("{} utterances cannot be divided with a share of {}", order.size(), fraction);
  }
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  return {dir.Subset({middle, order.end()}), dir.Subset({order.begin(), middle})};
}

void Split(const SplitCommandOptions& options, CommandContext& context) {
  for (const std::string& part : {options.rest, options.held_out}) {
    RequireOtherPlace(options.data, part, "what the other part needs of it");
  }
  if (IsSamePlace(options.rest, options.held_out)) {
    Throw<UsageError>("'{}' cannot hold both parts: give each a folder of its own", options.rest);
  }
  const data::DataDir dir = data::DataDir::Load(options.data, options.dir);
  if (options.by == "speaker" && dir.speakers().size() == 1) {
    Throw<InputError>(
        "'{}' has one speaker, and holding out whole speakers needs at least two; --by utterance holds out utterances",
        options.data);
  }
  const auto [rest, held_out] = options.by == "speaker" ? dir.SplitBySpeaker(options.fraction, context.seed())
                                                        : SplitByUtterance(dir, options.fraction, context.seed());
  nlohmann::json json;
  const auto write = [&](const data::DataDir& part, const std::string& folder, const char* name) {
    part.Write(folder, true);
    context.Print("{} utterances of {} speakers in {}", part.utterances().size(), part.speakers().size(), folder);
    json[name] = {{"utterances", part.utterances().size()}, {"speakers", part.speakers()}};
  };
  write(rest, options.rest, "rest");
  write(held_out, options.held_out, "held_out");
  context.SetResult(json.dump());
}

}  // namespace

REGISTER_COMMAND("split", SplitCommandOptions, Split,
                 {.summary = "divide a data directory by speaker, for a development or test set",
                  .description = "Which speakers are held out depends on --seed alone.",
                  .example = "antiphon split data/all data/train data/dev --fraction 0.1",
                  .positionals = {"data", "rest", "held-out"},
                  .required = {"data", "rest", "held-out"}});

}  // namespace antiphon::app
