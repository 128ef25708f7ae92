// The audio files of a folder: which there are, and which of them a table means.
//
// What only ffmpeg reads (m4a, mp4 …) counts where that is installed, unless a file of the same name beside it is of a
// format that needs no ffmpeg. Names are compared in Unicode's normalisation C, as file systems write them in different
// forms. Paths that go in and out are relative to the folder. Threads: one caller. Errors: InputError that says why a
// file cannot be used: it is of a format that cannot be read, lies elsewhere, has a blank in its name.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace antiphon::data {

class AudioFiles {
 public:
  /// Looks below `folder`, or takes it as the only file if it is one. InputError if it is neither, or if nothing there
  /// can be read.
  explicit AudioFiles(const std::filesystem::path& folder);

  /// What a table's field means: a path, a file name or a name without ending.
  std::string Find(const std::string& field);

  /// The name without ending if that is unique, else the path without ending.
  std::string ShortName(const std::string& path) const;

  /// The folder (of a single file, the one in which it lies), and all files in it that are audio by their names, and
  /// can be read here.
  const std::filesystem::path& folder() const { return folder_; }
  const std::set<std::string>& paths() const { return paths_; }
  /// Those that nobody asked for.
  const std::set<std::string>& unused() const { return unused_; }
  /// What was left out, and why: formats that cannot be read, doubles, links that lead nowhere; or "".
  std::string RemarkOnRest() const;

 private:
  void Add(const std::filesystem::path& relative, bool is_read);
  void AddDouble(const std::filesystem::path& relative);
  std::filesystem::path InFolder(const std::string& name) const;
  std::filesystem::path Meant(const std::string& path) const;
  void RefuseOtherFile(const std::string& field, const std::string& found) const;
  std::string WhyNot(const std::string& field) const;

  using ByName = std::map<std::string, std::vector<std::string>>;
  std::filesystem::path folder_;
  std::set<std::string> paths_;
  std::set<std::string> unused_;
  std::map<std::string, std::string> by_path_;
  ByName by_name_;
  ByName others_;                              // files that are no audio by their names
  std::map<std::string, std::string> folded_;  // by name, whatever its case
  std::map<std::string, int> formats_;         // endings of sound that cannot be read
  int doubles_ = 0;                            // files that have another's name, and need ffmpeg
  std::vector<std::string> dead_links_;        // called as audio is
  bool with_ffmpeg_;
};

/// `places` in their order, and in place of each folder among them the audio files in it, by name. InputError if a
/// folder has none.
std::vector<std::string> RecordingsIn(const std::vector<std::string>& places);
/// What recordings are called beside each other: without ending; with the folders where several, written as ids, have
/// the same name; with the ending where that alone differs. A file that is there twice has one name.
std::vector<std::string> NamesOfRecordings(const std::vector<std::string>& files);

/// Whether a file is audio of a format of libsndfile, by the ending of its name.
bool IsAudioName(const std::filesystem::path& path);
/// The same, or of one that needs ffmpeg, where that is installed.
bool IsReadableAudioName(const std::filesystem::path& path);

/// An id from a path or a name: what tools cannot take becomes '_', and letters have one form.
std::string CleanId(const std::string& text);

}  // namespace antiphon::data
