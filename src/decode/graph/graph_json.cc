#include "decode/graph/graph_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::decode {
namespace {

std::string Hex(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

}  // namespace

std::string TransitionChecksum(const hmm::HmmModel& model) {
  const auto values = model.transitions().log_probs();
  return Hex(Checksum(std::as_bytes(std::span(values.data(), values.size()))));
}

GraphJson ParseGraphJson(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    GraphJson result;
    result.format = json.at("format");
    if (result.format == kStaticFormat) {
      result.checksums["HCLG.fst"] = json.at("fst_checksum");
    } else if (result.format == kPartsFormat) {
      result.checksums = json.at("checksums").get<std::map<std::string, std::string>>();
    } else {
      Throw<InputError>("format {} or {} was expected, {} found; build the graph again", kStaticFormat, kPartsFormat,
                        result.format);
    }
    result.info.model_structure = json.at("model_structure");
    result.info.transition_weights = json.at("transition_weights");
    result.info.language_model = json.at("language_model");
    result.info.self_loop_scale = json.at("self_loop_scale");
    result.info.unknown_words = json.value("unknown_words", 0.0);
    hmm::LexiconOptions& lexicon = result.info.lexicon;
    const auto& options = json.at("lexicon");
    lexicon.silence_phones = options.at("silence_phones").get<std::vector<std::string>>();
    lexicon.optional_silence = options.at("optional_silence");
    lexicon.unknown_word = options.at("unknown_word");
    lexicon.silence_probability = options.at("silence_probability");
    lexicon.position_dependent = options.at("position_dependent");
    return result;
  } catch (const nlohmann::json::exception& e) {
    Throw<InputError>("this is no description of a graph ({})", e.what());
  }
}

std::string ToText(const GraphJson& graph) {
  const hmm::LexiconOptions& lexicon = graph.info.lexicon;
  nlohmann::ordered_json json = {{"format", graph.format}};
  if (graph.format == kStaticFormat) {
    json["fst_checksum"] = graph.checksums.at("HCLG.fst");
  } else {
    json["checksums"] = graph.checksums;
  }
  json["model_structure"] = graph.info.model_structure;
  json["transition_weights"] = graph.info.transition_weights;
  json["language_model"] = graph.info.language_model;
  json["self_loop_scale"] = graph.info.self_loop_scale;
  if (graph.info.unknown_words > 0) json["unknown_words"] = graph.info.unknown_words;
  json["lexicon"] = {{"silence_phones", lexicon.silence_phones},
                     {"optional_silence", lexicon.optional_silence},
                     {"unknown_word", lexicon.unknown_word},
                     {"silence_probability", lexicon.silence_probability},
                     {"position_dependent", lexicon.position_dependent}};
  return json.dump(2) + "\n";
}

std::string HexChecksum(const std::filesystem::path& file) { return Hex(Checksum(MappedFile(file).bytes())); }

void RequireChecksum(const GraphJson& graph, const std::filesystem::path& folder, const std::string& file) {
  const auto found = graph.checksums.find(file);
  if (found == graph.checksums.end() || HexChecksum(folder / file) != found->second) {
    Throw<InputError>("'{}' is not the file that graph.json describes: cut short or changed; build the graph again",
                      (folder / file).string());
  }
}

GraphInfo DescribeGraph(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const std::string& language_model,
                        const GraphBuildOptions& options) {
  return {ModelStructureChecksum(model), TransitionChecksum(model), language_model,
          SelfLoopScale(options, model), lexicon.options(),         options.unknown_words};
}

std::string SymbolTable(const hmm::Lexicon& lexicon) {
  std::string text;
  for (int32_t w = 0; w <= lexicon.num_words(); ++w) text += fmt::format("{} {}\n", lexicon.Word(w), w);
  return text + fmt::format("#0 {}\n", lexicon.backoff_word());
}

}  // namespace antiphon::decode
