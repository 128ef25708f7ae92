// The Montreal Forced Aligner's folders: audio files with a text of the same name beside each.
//
// x.lab or x.txt: the text of x.wav, whose speaker is its folder. x.TextGrid: a tier per speaker, whose intervals with
// text are utterances. One audio file with its text is such a folder, too. Source: Montreal Forced Aligner, "Corpus
// formats and structure".
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/trim.h"
#include "data/audio_files.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"
#include "data/text_grid.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

class Mfa : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    Corpus corpus{Below(place, part), {}};
    const AudioFiles audio(corpus.audio);
    for (const std::string& file : audio.paths()) {
      const fs::path stem = audio.folder() / fs::path(file).replace_extension();
      if (const fs::path grid = Beside(stem, {".TextGrid", ".textgrid"}); !grid.empty()) {
        AddGrid(grid, file, corpus, problems);
      } else if (const fs::path text = Beside(stem, {".lab", ".txt"}); !text.empty()) {
        TranscriptRow row = RowFor(file, text);
        row.text = Trim(ReadFile(text));
        const fs::path folder = fs::path(file).parent_path();
        row.speaker = folder.filename().string();
        corpus.rows.push_back(std::move(row));
      }
    }
    if (corpus.rows.empty()) {
      Throw<InputError>("'{}' holds no audio with .lab, .txt or .TextGrid files of the same name beside it",
                        corpus.audio.string());
    }
    ReportTextsAlone(corpus.audio, audio, problems);
    return corpus;
  }

 private:
  static fs::path Beside(const fs::path& stem, const std::vector<std::string>& endings) {
    std::error_code none;
    for (const std::string& ending : endings) {
      const fs::path file = stem.string() + ending;
      if (fs::is_regular_file(file, none)) return file;
    }
    return {};
  }

  static void ReportTextsAlone(const fs::path& folder, const AudioFiles& audio, std::vector<DataProblem>& problems) {
    std::error_code none;
    if (!fs::is_directory(folder, none)) return;  // one audio file
    std::set<fs::path> spoken;
    for (const std::string& file : audio.paths()) spoken.insert(fs::path(file).replace_extension());
    std::set<fs::path> alone;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const fs::path file = entry.path().lexically_relative(folder), ending = file.extension();
      const bool is_text = ending == ".TextGrid" || ending == ".textgrid" || ending == ".lab" || ending == ".txt";
      if (is_text && !spoken.contains(fs::path(file).replace_extension())) alone.insert(file);
    }
    if (alone.empty()) return;
    problems.push_back({folder.string(),
                        fmt::format("{} texts without audio of the same name are left out, the first: '{}'",
                                    alone.size(), alone.begin()->string()),
                        false});
  }

  static TranscriptRow RowFor(const std::string& file, const fs::path& where) {
    TranscriptRow row;
    row.where = where.string();
    row.file = file;
    return row;
  }

  static void AddGrid(const fs::path& grid, const std::string& file, Corpus& corpus,
                      std::vector<DataProblem>& problems) {
    try {
      for (const IntervalTier& tier : ReadTextGrid(grid)) {
        for (const LabelledInterval& interval : tier.intervals) {
          if (Trim(interval.label).empty()) continue;
          TranscriptRow row = RowFor(file, grid);
          row.text = interval.label;
          row.speaker = tier.name;
          row.start_s = interval.start_s;
          row.end_s = interval.end_s;
          row.is_part = row.has_times = true;
          corpus.rows.push_back(std::move(row));
        }
      }
    } catch (const InputError& e) {
      problems.push_back({grid.string(), e.message() + "; the file is left out", false});
    }
  }
};

REGISTER_CORPUS_FORMAT("mfa", Mfa);

}  // namespace
}  // namespace antiphon::data
