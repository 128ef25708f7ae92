#include "adapt_speech.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/toml_text.h"
#include "data/archive.h"
#include "pipeline/feature_tables.h"
#include "score/transcript.h"
#include "train/further.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

std::string Quoted(const fs::path& path) { return TomlString(path.string()); }

class SpeechMaker {
 public:
  SpeechMaker(const AdaptSpeechOptions& options, std::string model_file, const nn::Model& model, fs::path out,
              CommandContext& context)
      : options_(options), model_file_(std::move(model_file)), model_(model), out_(std::move(out)), context_(context) {}

  fs::path Make(bool needs_words) {
    if (!fs::is_directory(options_.data)) {
      throw InputError("there is no such folder: a data directory has wav.scp, or wav files, and text");
    }
    const fs::path text = fs::path(options_.data) / "text";
    const bool has_words = HasWords(options_);
    if (!has_words && needs_words) {
      Throw<InputError>(
          "'{}' has no transcripts (text): give some, or adapt to what the model itself recognises "
          "(--unsupervised --graph FOLDER)",
          options_.data);
    }
    MakeFolder(out_ / "speech");  // by which the folder is known as an adaptation's
    tables_ = pipeline::FindFeatureTables(
        {options_.data, model_file_, model_.feature_config, options_.features, options_.data_dir, out_,
         /*silent_recordings=*/false, train::KindTakenBy(model_).normalisation},
        context_.threads());
    if (!has_words) {
      WriteZeros();
      if (model_.speaker_model.empty()) return Store({});
      // Features of such a model are those after a speaker's transform, which takes words: what is recognised will do.
      Decode();
      return Store(out_ / "decode" / "fmllr.scp");
    }
    WriteSpeech(options_.unsupervised ? Recognise() : score::ReadTranscripts(text).words);
    Align();
    return Store(out_ / "align" / "fmllr.scp");
  }

 private:
  using Words = std::map<std::string, std::vector<std::string>>;

  Config Tables() const {
    Config config;
    config.Set("features", Quoted(tables_.features));
    config.Set("cmvn", Quoted(tables_.cmvn));
    config.Set("utt2spk", Quoted(tables_.utt2spk));
    config.Set("speaker-vectors", Quoted(tables_.speaker_vectors));
    config.Set("norm-vars", tables_.norm_vars ? "true" : "false");
    config.Set("threads", std::to_string(context_.threads()));
    return config;
  }

  void Decode() const {
    if (options_.graph.empty()) {
      throw UsageError(options_.unsupervised
                           ? "--unsupervised needs a search graph (--graph)"
                           : "the model takes features that are adapted to each speaker, for which speech without "
                             "transcripts has to be recognised: give a search graph (--graph)");
    }
    Config config = Tables();
    config.Set("model", Quoted(model_file_));
    config.Set("graph", Quoted(options_.graph));
    config.Set("data", Quoted(options_.data));
    config.Set("out", Quoted(out_ / "decode"));
    config.Set("lattices", "false");
    if (!options_.weights.empty()) config.Set("weights", Quoted(options_.weights));
    RunCommand("decode", config, context_.out());
  }

  // What the model recognises and is sure of.
  Words Recognise() const {
    Decode();
    Words words;
    size_t all = 0;
    std::istringstream lines(ReadFile(out_ / "decode" / "results.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      ++all;
      std::vector<std::string> spoken;
      double confidence = 0;
      for (const auto& word : json.at("words")) {
        spoken.push_back(word.at("word"));
        confidence += word.value("confidence", 1.0);
      }
      if (spoken.empty() || confidence < options_.min_confidence * static_cast<double>(spoken.size())) continue;
      words[json.at("utt_id")] = std::move(spoken);
    }
    context_.Print("{} of {} utterances were recognised with a confidence of {} or more", words.size(), all,
                   options_.min_confidence);
    if (words.empty()) {
      Throw<InputError>(
          "none of the {} utterances of '{}' was recognised with enough confidence: lower "
          "--min-confidence, or give transcripts",
          all, options_.data);
    }
    return words;
  }

  void WriteSpeech(const Words& words) const {
    const fs::path given = fs::path(options_.data) / "utt2spk";
    std::map<std::string, std::string> speakers;
    if (fs::exists(given)) {
      for (const auto& [utt_id, speaker] : score::ReadUtteranceMap(given)) speakers[utt_id] = speaker;
    }
    std::string text, utt2spk;
    for (const auto& [utt_id, spoken] : words) {
      const auto found = speakers.find(utt_id);
      const std::string& speaker = found == speakers.end() ? utt_id : found->second;
      if (!options_.speaker.empty() && speaker != options_.speaker) continue;
      text += fmt::format("{} {}\n", utt_id, fmt::join(spoken, " "));
      utt2spk += fmt::format("{} {}\n", utt_id, speaker);
    }
    if (text.empty()) {
      Throw<InputError>("'{}' has no utterance{} with words", options_.data,
                        options_.speaker.empty() ? "" : fmt::format(" of speaker '{}'", options_.speaker));
    }
    WriteFileAtomically(out_ / "speech" / "text", text);
    WriteFileAtomically(out_ / "speech" / "utt2spk", utt2spk);
  }

  // An alignment for speech of which nobody knows the words.
  void WriteZeros() const {
    const data::FeatureSource features(tables_);
    data::TableWriter<std::vector<int32_t>> table(out_ / "align" / "pdf.ark");
    for (const std::string& utt_id : features.keys()) {
      if (!options_.speaker.empty() && features.Speaker(utt_id) != options_.speaker) continue;
      table.Write(utt_id, std::vector<int32_t>(static_cast<size_t>(features.Get(utt_id).rows()), 0));
    }
    table.Close();
  }

  void Align() const {
    const fs::path lexicon(options_.lexicon.empty() ? options_.graph + "/lexicon.txt" : options_.lexicon);
    if (options_.lexicon.empty() && options_.graph.empty()) {
      throw UsageError("the words need pronunciations: give --lexicon, or a --graph that was made with one");
    }
    Config config = Tables();
    config.Set("model", Quoted(model_file_));
    config.Set("data", Quoted(out_ / "speech"));
    config.Set("lexicon", Quoted(lexicon));
    config.Set("out", Quoted(out_ / "align"));
    // Aligned as noise, a word without pronunciation spoils the words around it too; of minutes that is too much.
    config.Set("map-unknown-words", "false");
    RunCommand("align", config, context_.out());
  }

  fs::path Store(const fs::path& transforms) const {
    Config config = Tables();
    config.Set("alignment", Quoted(out_ / "align" / "pdf.scp"));
    config.Set("num-pdfs", std::to_string(model_.num_pdfs()));
    config.Set("out", Quoted(out_ / "store"));
    if (!model_.speaker_model.empty()) {
      const std::string bytes(reinterpret_cast<const char*>(model_.speaker_model.data()), model_.speaker_model.size());
      WriteFileAtomically(out_ / "speaker_model.safetensors", bytes);
      config.Set("speaker-model", Quoted(out_ / "speaker_model.safetensors"));
      if (fs::exists(transforms)) config.Set("speaker-transforms", Quoted(transforms));
    }
    RunCommand("store", config, context_.out());
    return out_ / "store";
  }

  const AdaptSpeechOptions& options_;
  std::string model_file_;
  const nn::Model& model_;
  fs::path out_;
  CommandContext& context_;
  data::FeatureSourceOptions tables_;
};

}  // namespace

bool HasWords(const AdaptSpeechOptions& options) {
  return options.unsupervised || fs::exists(fs::path(options.data) / "text");
}

fs::path MakeAdaptationStore(const AdaptSpeechOptions& options, const std::string& model_file, const nn::Model& model,
                             bool needs_words, const fs::path& out, CommandContext& context) {
  return WithContext([&] { return SpeechMaker(options, model_file, model, out, context).Make(needs_words); },
                     [&] { return fmt::format("speech to adapt to, '{}'", options.data); });
}

}  // namespace antiphon::app
