// Transcripts by utterance, as scoring reads them: Kaldi text and CTM.
//
// Kaldi text: "utt_id word word …", one utterance per line, an id alone is an empty transcript.
// CTM: "utt_id channel start duration word [confidence]"; words are ordered by start time, ";;" begins a comment. An
// utterance without words cannot stand in a CTM, so that a missing one counts as empty there. An id has one channel, as
// the words of two would be mixed. Errors: InputError with file:line for a repeated id, a second channel, a broken line
// or bytes that are not UTF-8; IoError for the file. Words come in Unicode's normalisation C (base/utf8.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::score {

enum class TranscriptFormat { kText, kCtm };

struct Transcripts {
  TranscriptFormat format = TranscriptFormat::kText;
  std::string source;  // file name, for messages
  std::map<std::string, std::vector<std::string>> words;
};

/// A file that ends in ".ctm" is taken as CTM.
Transcripts ReadTranscripts(const std::filesystem::path& path);
/// `source` stands in for the file name in errors.
Transcripts ParseTranscripts(std::string_view text, TranscriptFormat format, std::string source);

/// "utt_id value" per line (utt2spk).
std::map<std::string, std::string> ReadUtteranceMap(const std::filesystem::path& path);

/// The code points of UTF-8 text, one string each. InputError if the bytes are not UTF-8.
std::vector<std::string> Utf8Characters(std::string_view text);

}  // namespace antiphon::score
