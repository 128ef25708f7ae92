#include "score/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

namespace antiphon::score {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::vector<std::string_view> SplitBlanks(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return fields;
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// Calls body(fields, line_number) for every line that is not empty.
template <class Body>
void ForEachLine(std::string_view text, const std::string& source, Body&& body) {
  int number = 0;
  text = WithoutByteOrderMark(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    WithContext(
        [&] {
          RequireUtf8(line);
          if (const auto fields = SplitBlanks(line); !fields.empty()) body(fields);
        },
        [&] { return fmt::format("{}:{}", source, number); });
  }
}

double ParseSeconds(std::string_view field) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !(value >= 0.0 && value < 1e9)) {
    Throw<InputError>("expected a time in seconds, found '{}'", field);
  }
  return value;
}

Transcripts ParseText(std::string_view text, std::string source) {
  Transcripts result{TranscriptFormat::kText, std::move(source), {}};
  ForEachLine(text, result.source, [&](const std::vector<std::string_view>& fields) {
    std::vector<std::string> words;
    for (const std::string_view word : std::span(fields).subspan(1)) words.push_back(ComposeUtf8(word));
    if (!result.words.emplace(fields[0], std::move(words)).second) {
      Throw<InputError>("utterance '{}' stands here a second time; keep one line per utterance", fields[0]);
    }
  });
  return result;
}

Transcripts ParseCtm(std::string_view text, std::string source) {
  Transcripts result{TranscriptFormat::kCtm, std::move(source), {}};
  struct Timed {
    std::string channel;
    std::vector<std::pair<double, std::string>> words;
  };
  std::map<std::string, Timed> timed;
  ForEachLine(text, result.source, [&](const std::vector<std::string_view>& fields) {
    if (fields[0].starts_with(";;")) return;
    if (fields.size() != 5 && fields.size() != 6) {
      Throw<InputError>("expected 'utterance channel start duration word [confidence]', found {} fields",
                        fields.size());
    }
    ParseSeconds(fields[3]);
    const auto place = timed.try_emplace(std::string(fields[0]), Timed{std::string(fields[1]), {}}).first;
    Timed& utterance = place->second;
    if (utterance.channel != fields[1]) {
      Throw<InputError>(
          "'{}' has channel '{}' here and '{}' before; expected one channel for each id: write the channel into the id "
          "({}-{}), here and in the other file",
          fields[0], fields[1], utterance.channel, fields[0], fields[1]);
    }
    utterance.words.emplace_back(ParseSeconds(fields[2]), ComposeUtf8(fields[4]));
  });
  for (auto& [utt_id, utterance] : timed) {
    std::stable_sort(utterance.words.begin(), utterance.words.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    auto& words = result.words[utt_id];
    for (auto& [start, word] : utterance.words) words.push_back(std::move(word));
  }
  return result;
}

}  // namespace

Transcripts ParseTranscripts(std::string_view text, TranscriptFormat format, std::string source) {
  return format == TranscriptFormat::kText ? ParseText(text, std::move(source)) : ParseCtm(text, std::move(source));
}

Transcripts ReadTranscripts(const std::filesystem::path& path) {
  const auto format = path.extension() == ".ctm" ? TranscriptFormat::kCtm : TranscriptFormat::kText;
  return ParseTranscripts(ReadFile(path), format, path.string());
}

std::map<std::string, std::string> ReadUtteranceMap(const std::filesystem::path& path) {
  std::map<std::string, std::string> result;
  ForEachLine(ReadFile(path), path.string(), [&](const std::vector<std::string_view>& fields) {
    if (fields.size() != 2) Throw<InputError>("expected 'utterance speaker', found {} fields", fields.size());
    if (!result.emplace(fields[0], fields[1]).second) {
      Throw<InputError>("utterance '{}' stands here a second time", fields[0]);
    }
  });
  return result;
}

std::vector<std::string> Utf8Characters(std::string_view text) {
  std::vector<std::string> characters;
  for (const char32_t c : DecodeUtf8(text)) characters.push_back(EncodeUtf8({c}));
  return characters;
}

}  // namespace antiphon::score
