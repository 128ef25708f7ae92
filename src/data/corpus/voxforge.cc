// VoxForge: a folder per submission, with etc/PROMPTS or etc/prompts-original, etc/README, and wav/ or flac/.
//
// Lines of prompts are NAME TEXT, where NAME may have a path of another time. The speaker is the submission's name up
// to the first '-'; "anonymous" ones are each their own. Source: voxforge.org, "How to submit speech".
#include <algorithm>

#include "base/error.h"
#include "base/trim.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Of a line "Gender: Male"; German submissions say männlich and weiblich. "" for what begins with another letter.
std::string GenderIn(const fs::path& readme) {
  std::string gender;
  std::error_code none;
  if (!fs::is_regular_file(readme, none)) return gender;
  EachLine(readme, [&](std::string_view line, const std::string&) {
    for (const std::string_view key : {"Gender:", "Geschlecht:"}) {
      if (const size_t at = line.find(key); at != std::string_view::npos && gender.empty()) {
        gender = Trim(line.substr(at + key.size()));
      }
    }
  });
  const char first = gender.empty() ? '\0' : gender[0];
  if (std::string_view("fFwW").find(first) != std::string_view::npos) return "f";
  return first == 'm' || first == 'M' ? "m" : "";
}

class VoxForge : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    Corpus corpus{Below(place, part), {}};
    std::error_code none;
    if (!fs::is_directory(corpus.audio, none)) Throw<InputError>("'{}' is no folder of submissions", place.string());
    std::vector<fs::path> submissions;
    for (const fs::directory_entry& entry : fs::directory_iterator(corpus.audio)) {
      if (fs::is_directory(entry.path() / "etc", none)) submissions.push_back(entry.path());
    }
    std::ranges::sort(submissions);
    for (const fs::path& submission : submissions) Add(submission, corpus, problems);
    if (corpus.rows.empty()) Throw<InputError>("'{}' holds no folders with etc/PROMPTS", corpus.audio.string());
    return corpus;
  }

 private:
  static void Add(const fs::path& submission, Corpus& corpus, std::vector<DataProblem>& problems) {
    std::error_code none;
    fs::path prompts = submission / "etc" / "PROMPTS";
    if (!fs::is_regular_file(prompts, none)) prompts = submission / "etc" / "prompts-original";
    if (!fs::is_regular_file(prompts, none)) {
      problems.push_back({submission.string(), "has no etc/PROMPTS; the submission is left out", false});
      return;
    }
    const std::string name = submission.filename().string();
    const std::string speaker = name.starts_with("anonymous") ? name : name.substr(0, name.find('-'));
    const std::string gender = GenderIn(submission / "etc" / "README");
    const std::string audio = fs::is_directory(submission / "wav", none) ? "wav" : "flac";
    EachLine(prompts, [&](std::string_view line, const std::string& where) {
      const size_t blank = line.find_first_of(" \t");
      const std::string file = fs::path(line.substr(0, blank)).filename().string();
      TranscriptRow row;
      row.where = where;
      row.file = (fs::path(name) / audio / (file + "." + audio)).string();
      row.id = name + "-" + file;
      row.text = blank == std::string_view::npos ? "" : line.substr(blank);
      row.speaker = speaker;
      row.gender = gender;
      corpus.rows.push_back(std::move(row));
    });
  }
};

REGISTER_CORPUS_FORMAT("voxforge", VoxForge);

}  // namespace
}  // namespace antiphon::data
