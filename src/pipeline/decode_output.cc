#include "pipeline/decode_output.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/gzip.h"
#include "base/rounded_seconds.h"
#include "decode/lattice/lattice_text.h"
#include "pipeline/written_words.h"

namespace antiphon::pipeline {

DecodeOutput::DecodeOutput(const DecodeOutputOptions& options, const std::filesystem::path& folder)
    : text_(folder / "text"),
      words_ctm_(folder / "words.ctm"),
      phones_ctm_(folder / "phones.ctm"),
      json_(folder / "results.jsonl") {
  if (options.nbest) nbest_ = std::make_unique<AtomicFile>(folder / "nbest.txt");
  if (options.written) written_ = std::make_unique<AtomicFile>(folder / "written");
  if (options.lattices) lattices_ = std::make_unique<AtomicFile>(folder / "lattices.gz");
}

DecodeEntry DecodeFormat::Format(const std::string& utt_id, const decode::Recognition& r, std::string lattice) const {
  DecodeEntry entry;
  const auto words_of = [&](const decode::LatticePath& path) {
    std::string text;
    for (const int32_t word : path.words) text += " " + graph_.words()[static_cast<size_t>(word)];
    return text;
  };
  const auto seconds = [&](int frames) { return frames * options_.frame_shift_s; };
  entry.text = utt_id + words_of(r.best) + "\n";
  nlohmann::ordered_json json = {{"utt_id", utt_id}, {"text", words_of(r.best).substr(r.best.words.empty() ? 0 : 1)}};
  json["seconds"] = RoundedSeconds(seconds(r.num_frames));
  json["graph_cost"] = r.best.cost.graph;
  json["acoustic_cost"] = r.best.cost.acoustic;
  json["words"] = nlohmann::json::array();
  for (size_t i = 0; i < r.times.words.size(); ++i) {
    const decode::TimedWord& word = r.times.words[i];
    const std::string& name = graph_.words()[static_cast<size_t>(word.word)];
    const double start = seconds(word.begin_frame), duration = seconds(word.num_frames);
    fmt::format_to(std::back_inserter(entry.words_ctm), "{} 1 {:.3f} {:.3f} {}", utt_id, start, duration, name);
    json["words"].push_back({{"word", name}, {"start", RoundedSeconds(start)}, {"duration", RoundedSeconds(duration)}});
    if (!r.confidences.empty()) {
      fmt::format_to(std::back_inserter(entry.words_ctm), " {:.3f}", r.confidences[i]);
      json["words"].back()["confidence"] = r.confidences[i];
    }
    entry.words_ctm += "\n";
  }
  for (const decode::TimedPhone& phone : r.times.phones) {
    fmt::format_to(std::back_inserter(entry.phones_ctm), "{} 1 {:.3f} {:.3f} {}\n", utt_id, seconds(phone.begin_frame),
                   seconds(phone.num_frames), model_.phones().Name(phone.phone));
  }
  if (!r.remark.empty()) json["remark"] = r.remark;
  if (options_.written) AddWritten(utt_id, r, entry, json);
  entry.json = json.dump() + "\n";
  for (size_t rank = 0; options_.nbest && rank < r.nbest.size(); ++rank) {
    const decode::LatticePath& path = r.nbest[rank];
    fmt::format_to(std::back_inserter(entry.nbest), "{}-{} {:.3f} {:.3f} {:.3f}{}\n", utt_id, rank + 1,
                   path.cost.Total(options_.weights.acoustic_scale) +
                       options_.weights.word_penalty * static_cast<double>(path.words.size()),
                   path.cost.graph, path.cost.acoustic, words_of(path));
  }
  if (!options_.lattices) return entry;
  entry.lattice =
      lattice.empty() ? Gzip(decode::LatticeToText(utt_id, r.lattice), GzipEffort::kQuick) : std::move(lattice);
  return entry;
}

void DecodeFormat::AddWritten(const std::string& utt_id, const decode::Recognition& r, DecodeEntry& entry,
                              nlohmann::ordered_json& json) const {
  std::vector<TimedToken> words;
  for (size_t i = 0; i < r.times.words.size(); ++i) {
    const decode::TimedWord& word = r.times.words[i];
    words.push_back({graph_.words()[static_cast<size_t>(word.word)], word.begin_frame * options_.frame_shift_s,
                     (word.begin_frame + word.num_frames) * options_.frame_shift_s,
                     i < r.confidences.size() ? r.confidences[i] : -1.0});
  }
  const std::vector<TimedToken> tokens = WrittenWords(*options_.written, words, /*ended=*/true);
  const std::string text = TextOf(tokens);
  json["written"] = text;
  json["written_words"] = nlohmann::json::array();
  for (const TimedToken& token : tokens) {
    json["written_words"].push_back({{"word", token.text},
                                     {"start", RoundedSeconds(token.start_s)},
                                     {"duration", RoundedSeconds(token.end_s - token.start_s)}});
    if (token.confidence >= 0) json["written_words"].back()["confidence"] = token.confidence;
  }
  entry.written = utt_id + (tokens.empty() ? "" : " ") + text + "\n";
}

void DecodeOutput::Write(const DecodeEntry& entry) {
  text_.stream() << entry.text;
  words_ctm_.stream() << entry.words_ctm;
  phones_ctm_.stream() << entry.phones_ctm;
  json_.stream() << entry.json;
  if (nbest_) nbest_->stream() << entry.nbest;
  if (written_) written_->stream() << entry.written;
  if (lattices_) {
    lattices_->stream() << entry.lattice;
    lattices_->CheckStream();
  }
}

void DecodeOutput::Close() {
  for (AtomicFile* file : {&text_, &words_ctm_, &phones_ctm_, &json_, nbest_.get(), lattices_.get(), written_.get()}) {
    if (file != nullptr) file->Commit();
  }
}

}  // namespace antiphon::pipeline
