#include "pipeline/load_rescorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "decode/lm/ngram.h"

namespace antiphon::pipeline {
namespace {

void TellLacking(const decode::NgramModel& model, const std::string& file, const decode::Graph& graph) {
  const auto& words = graph.words();
  const auto lacking =
      std::count_if(words.begin() + 1, words.end(), [&](const std::string& word) { return model.WordId(word) < 0; });
  if (lacking > 0) {
    log::Warn("'{}' lacks {} of the {} words of the graph: their costs stay as the graph has them", file, lacking,
              words.size() - 1);
  }
}

// The graph knows the checksum of its language model's file, packed or not as it was then.
void TellOther(const std::string& file, const decode::Graph& graph) {
  const std::string& source = graph.info().language_model;
  if (!source.starts_with("arpa ")) return;
  const std::string name = std::filesystem::path(file).filename().string();
  const std::string checksum = fmt::format("{:016x}", Checksum(MappedFile(file).bytes()));
  if (source.find(fmt::format(" {} ", name)) != std::string::npos && source.find(checksum) == std::string::npos) {
    log::Warn("'{}' is another file than the one that the graph was built with ({}): scores will be wrong", file,
              source);
  }
}

}  // namespace

std::unique_ptr<const decode::LmRescorer> LoadRescorer(const std::string& rescore_arpa, const std::string& graph_arpa,
                                                       const decode::Graph& graph) {
  if (rescore_arpa.empty() != graph_arpa.empty()) {
    throw UsageError("--rescore-arpa and --graph-arpa belong together");
  }
  if (rescore_arpa.empty()) return nullptr;
  auto graphs = decode::NgramModel::ReadArpa(graph_arpa), larger = decode::NgramModel::ReadArpa(rescore_arpa);
  TellLacking(graphs, graph_arpa, graph);
  TellLacking(larger, rescore_arpa, graph);
  TellOther(graph_arpa, graph);
  return std::make_unique<const decode::LmRescorer>(std::move(graphs), std::move(larger), graph.words());
}

}  // namespace antiphon::pipeline
