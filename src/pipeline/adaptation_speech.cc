#include "pipeline/adaptation_speech.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "chain/chain_data.h"
#include "data/archive.h"
#include "hmm/hmm_model.h"
#include "pipeline/align.h"
#include "pipeline/decode.h"
#include "pipeline/feature_tables.h"
#include "pipeline/ivectors.h"
#include "pipeline/store.h"
#include "score/transcript.h"
#include "train/warm_start.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

class SpeechMaker {
 public:
  SpeechMaker(const AdaptSpeechOptions& options, std::string model_file, const nn::Model& model, fs::path out,
              const StageHost& host)
      : options_(options),
        model_file_(std::move(model_file)),
        model_(model),
        out_(std::move(out)),
        host_(host),
        is_chain_(train::IsChain(model)) {}

  fs::path Make(bool needs_words) {
    if (!fs::is_directory(options_.data)) {
      throw InputError("there is no such folder: a data directory has wav.scp, or wav files, and text");
    }
    if (is_chain_) RequireChainData();
    const fs::path text = fs::path(options_.data) / "text";
    const bool has_words = HasWords(options_);
    if (!has_words && needs_words) {
      Throw<InputError>(
          "'{}' has no transcripts (text): give some, or adapt to what the model itself recognises "
          "(--unsupervised --graph FOLDER)",
          options_.data);
    }
    MakeFolder(out_ / "speech");  // by which the folder is known as an adaptation's
    tables_ = FindFeatureTables(
        {options_.data, model_file_, model_.feature_config, options_.features, options_.data_dir, out_,
         /*silent_recordings=*/false, train::NormalisationTakenBy(model_)},
        host_.threads);
    if (!has_words) {
      if (is_chain_)
        throw UsageError("a chain model learns from words: give transcripts, or --unsupervised --graph FOLDER");
      WriteZeros();
      if (model_.speaker_model.empty()) return Store({});
      // Features of such a model are those after a speaker's transform, which takes words: what is recognised will do.
      Decode();
      return Store(out_ / "decode" / "fmllr.scp");
    }
    WriteSpeech(options_.unsupervised ? Recognise() : score::ReadTranscripts(text).words);
    Align();
    if (is_chain_) MakeReferences();
    return Store(out_ / "align" / "fmllr.scp");
  }

 private:
  using Words = std::map<std::string, std::vector<std::string>>;

  // As another stage is told them.
  data::FeatureSourceOptions Tables() const {
    data::FeatureSourceOptions tables;
    tables.features = tables_.features;
    tables.cmvn = tables_.cmvn;
    tables.utt2spk = tables_.utt2spk;
    tables.speaker_vectors = tables_.speaker_vectors;
    tables.norm_vars = tables_.norm_vars;
    return tables;
  }

  void Decode() const {
    if (options_.graph.empty()) {
      throw UsageError(options_.unsupervised
                           ? "--unsupervised needs a search graph (--graph)"
                           : "the model takes features that are adapted to each speaker, for which speech without "
                             "transcripts has to be recognised: give a search graph (--graph)");
    }
    DecodeRequest request;
    request.features = Tables();
    request.model = model_file_;
    request.graph = options_.graph;
    request.adaptation.graph = options_.adapt_graph;
    request.data = options_.data;
    request.out = (out_ / "decode").string();
    request.lattices = false;
    request.weights = options_.weights;
    host_.in_team([&](Team& team, int threads) {
      const DecodeReport report = pipeline::Decode(request, team, threads);
      if (!team.is_first()) return;
      for (const std::string& sentence : Sentences(report)) host_.say(sentence);
    });
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
    host_.say(fmt::format("{} of {} utterances were recognised with a confidence of {} or more", words.size(), all,
                          options_.min_confidence));
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
    AlignRequest request;
    request.features = Tables();
    request.model = model_file_;
    request.data = (out_ / "speech").string();
    request.lexicon = lexicon.string();
    request.out = (out_ / "align").string();
    // Aligned as noise, a word without pronunciation spoils the words around it too; of minutes that is too much.
    request.training.map_unknown_words = false;
    host_.in_team([&](Team& team, int threads) {
      const AlignReport report = pipeline::Align(request, team, threads);
      if (team.is_first()) host_.say(Sentence(report));
    });
  }

  void RequireChainData() const {
    if (!options_.chain_data.empty()) return;
    throw UsageError(
        "a chain model needs the folder that antiphon chain made for its training, whose denominator the new speech "
        "competes with: give --chain-data");
  }

  // What was said, beside the denominator that the model was trained with.
  void MakeReferences() const {
    chain::ChainData chain = chain::ChainData::Load(options_.chain_data);
    if (chain.model.StructureChecksum() != hmm::HmmModel::FromJson(model_.hmm_json).StructureChecksum()) {
      Throw<UsageError>("'{}' has other states than the model: give the folder of the model's own training",
                        options_.chain_data);
    }
    const data::FeatureSource features(tables_);
    std::map<std::string, chain::Reference> references;
    for (data::SequentialReader<std::vector<int32_t>> reader((out_ / "align" / "ali.ark").string()); reader.Next();) {
      references[reader.key()] = chain::InInputFrames(chain::ReferenceOf(chain.model, reader.value()), chain.step,
                                                      static_cast<int>(features.Get(reader.key()).rows()));
    }
    chain.references = chain::References(std::move(references));
    chain.Save(out_ / "chain");
  }

  // As the model's training had them; the table.
  std::string MakeVectors() const {
    IvectorRequest request;
    request.out = (out_ / "vectors").string();
    request.extractor = (out_ / "ivector_extractor.safetensors").string();
    request.online = true;
    request.speaker_utterances = 2;
    request.features = Tables();
    request.threads = host_.threads;
    const auto& bytes = model_.ivector_extractor;
    WriteFileAtomically(request.extractor, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    const IvectorReport report = MakeIvectors(request);
    host_.say(Sentence(report));
    return report.table;
  }

  fs::path Store(const fs::path& transforms) const {
    StoreRequest request;
    request.out = (out_ / "store").string();
    request.build.input = Tables();
    request.build.pdf_alignment = (out_ / (is_chain_ ? "chain" : "align") / "pdf.scp").string();
    request.build.num_pdfs = model_.num_pdfs();
    if (!model_.ivector_extractor.empty()) {
      request.build.input.speaker_vectors = MakeVectors();
    } else if (!model_.speaker_model.empty()) {
      const std::string bytes(reinterpret_cast<const char*>(model_.speaker_model.data()), model_.speaker_model.size());
      const fs::path speaker_model = out_ / "speaker_model.safetensors";
      WriteFileAtomically(speaker_model, bytes);
      request.build.input.speaker_model = speaker_model.string();
      if (fs::exists(transforms)) request.build.input.speaker_transforms = transforms.string();
    }
    for (const std::string& sentence : Sentences(pipeline::Store(request, host_.threads))) host_.say(sentence);
    return request.out;
  }

  const AdaptSpeechOptions& options_;
  std::string model_file_;
  const nn::Model& model_;
  fs::path out_;
  const StageHost& host_;
  const bool is_chain_;
  data::FeatureSourceOptions tables_;
};

}  // namespace

bool HasWords(const AdaptSpeechOptions& options) {
  return options.unsupervised || fs::exists(fs::path(options.data) / "text");
}

fs::path MakeAdaptationStore(const AdaptSpeechOptions& options, const std::string& model_file, const nn::Model& model,
                             bool needs_words, const fs::path& out, const StageHost& host) {
  return WithContext([&] { return SpeechMaker(options, model_file, model, out, host).Make(needs_words); },
                     [&] { return fmt::format("speech to adapt to, '{}'", options.data); });
}

}  // namespace antiphon::pipeline
