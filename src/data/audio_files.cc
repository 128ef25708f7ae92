#include "data/audio_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/trim.h"
#include "base/utf8.h"
#include "feat/foreign_sound.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// A name that is not UTF-8 stays as it is.
std::string OneForm(const std::string& name) {
  return FindBadUtf8(name) == std::string::npos ? ComposeUtf8(name) : name;
}

std::string Folded(const std::string& name) { return FindBadUtf8(name) == std::string::npos ? FoldCase(name) : name; }

std::string Ending(const fs::path& path) { return Folded(path.extension().string()); }

// Before its ending too.
bool HasOuterBlanks(const std::string& name) {
  const std::string stem = fs::path(name).stem().string();
  return Trim(name) != name || Trim(stem) != stem;
}

// Of formats that ffmpeg reads.
bool IsOtherSound(const fs::path& path) {
  static const std::set<std::string> k_endings = {".m4a", ".mp4", ".aac", ".wma",  ".amr", ".3gp", ".mov",
                                                  ".mkv", ".mka", ".m4b", ".webm", ".ac3", ".avi", ".wmv"};
  return k_endings.contains(Ending(path));
}

}  // namespace

AudioFiles::AudioFiles(const fs::path& folder) : folder_(folder), with_ffmpeg_(feat::ForeignSoundIsRead()) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    folder_ = folder.parent_path();
    // Whatever it is called: whoever names one file means it.
    const std::string name = folder.filename().string();
    paths_ = unused_ = {name};
    by_path_[OneForm(name)] = name;
    by_name_[OneForm(folder.stem().string())].push_back(name);
    return;
  }
  if (!fs::exists(folder, error)) {
    Throw<InputError>("'{}' does not exist: a folder of audio files, or an audio file, is expected", folder.string());
  }
  if (!fs::is_directory(folder, error)) {
    Throw<InputError>("'{}' is neither a folder of audio files nor an audio file", folder.string());
  }
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path relative = entry.path().lexically_relative(folder);
    if (entry.is_regular_file(error)) {
      found.push_back(relative);
    } else if (entry.status(error).type() == fs::file_type::not_found &&
               (IsAudioName(relative) || IsOtherSound(relative))) {
      dead_links_.push_back(relative.string());
    }
  }
  std::sort(dead_links_.begin(), dead_links_.end());
  std::sort(found.begin(), found.end());
  std::set<fs::path> without_endings;  // of what needs no ffmpeg
  for (const fs::path& relative : found) {
    if (IsAudioName(relative)) without_endings.insert(fs::path(relative).replace_extension());
  }
  for (const fs::path& relative : found) {
    if (!with_ffmpeg_ || !IsOtherSound(relative)) {
      Add(relative, IsAudioName(relative));
    } else if (without_endings.contains(fs::path(relative).replace_extension())) {
      AddDouble(relative);
    } else {
      Add(relative, /*is_read=*/true);
    }
  }
  if (!paths_.empty()) return;
  const std::string remark = RemarkOnRest();
  Throw<InputError>("'{}' holds no audio files (WAV, FLAC, Ogg, Opus …){}", folder.string(),
                    remark.empty() ? "" : "; " + remark);
}

void AudioFiles::Add(const fs::path& relative, bool is_read) {
  const std::string path = relative.string();
  const std::string name = relative.filename().string(), stem = relative.stem().string();
  folded_.emplace(Folded(name), path);
  if (!is_read) {
    if (IsOtherSound(relative) && !with_ffmpeg_) ++formats_[Ending(relative)];
    for (const std::string& key : {name, stem, std::string(Trim(name))}) others_[OneForm(key)].push_back(path);
    return;
  }
  if (const std::string trimmed(Trim(stem)); trimmed != stem) {
    for (const std::string& key : {trimmed, trimmed + relative.extension().string()})
      others_[OneForm(key)].push_back(path);
  }
  paths_.insert(path);
  unused_.insert(path);
  by_path_[OneForm(path)] = path;
  by_name_[OneForm(name)].push_back(path);
  by_name_[OneForm(stem)].push_back(path);
}

// Found by its whole name, by whoever asks for it.
void AudioFiles::AddDouble(const fs::path& relative) {
  ++doubles_;
  by_path_[OneForm(relative.string())] = relative.string();
  by_name_[OneForm(relative.filename().string())].push_back(relative.string());
}

// An absolute path below the folder as one relative to it.
fs::path AudioFiles::InFolder(const std::string& name) const {
  const fs::path path = fs::path(name).lexically_normal();
  if (!path.is_absolute()) return path;
  const fs::path relative = path.lexically_relative(fs::absolute(folder_).lexically_normal());
  return relative.empty() || *relative.begin() == ".." ? path : relative;
}

std::string AudioFiles::Find(const std::string& field) {
  for (const std::string& name : {field, std::string(Trim(field))}) {
    const std::string wanted = OneForm(InFolder(name).string());
    if (const auto whole = by_path_.find(wanted); whole != by_path_.end()) {
      unused_.erase(whole->second);
      return whole->second;
    }
    const auto it = by_name_.find(fs::path(wanted).filename().string());
    if (it == by_name_.end()) continue;
    if (it->second.size() > 1) {
      Throw<InputError>("'{}' may be '{}' or '{}'; write the path", field, it->second[0], it->second[1]);
    }
    RefuseOtherFile(name, it->second[0]);
    unused_.erase(it->second[0]);
    return it->second[0];
  }
  throw InputError(WhyNot(field));
}

// Whether the path leads somewhere, as it stands or from the folder: there, or "".
fs::path AudioFiles::Meant(const std::string& path) const {
  std::error_code none;
  for (const fs::path& place : {fs::path(path), folder_ / path}) {
    if (!path.empty() && fs::is_regular_file(place, none)) return place;
  }
  return {};
}

// A table that names an existing file does not mean another one of that name.
void AudioFiles::RefuseOtherFile(const std::string& field, const std::string& found) const {
  std::error_code none;
  if (!fs::path(field).has_parent_path()) return;
  const fs::path meant = Meant(field);
  if (meant.empty() || fs::equivalent(meant, folder_ / found, none)) return;
  Throw<InputError>(
      "'{}' lies outside of the folder '{}', which holds another file of that name; give a folder that "
      "holds all recordings",
      field, folder_.string());
}

std::string AudioFiles::WhyNot(const std::string& field) const {
  const std::string name = OneForm(fs::path(std::string(Trim(field))).filename().string());
  const std::string stem = fs::path(name).stem().string();
  for (const std::string& key : {name, stem}) {
    const auto it = others_.find(key);
    if (it == others_.end()) continue;
    const std::string& path = it->second.front();
    const std::string base = fs::path(path).filename().string();
    if (HasOuterBlanks(base)) {
      return fmt::format("there is no audio file '{}', but '{}', with a blank at an end of its name: rename that file",
                         field, path);
    }
    if (IsOtherSound(path)) {
      return fmt::format(
          "'{}' is there, but the format {} cannot be read without ffmpeg: install that, or convert the file to WAV or "
          "FLAC",
          path, Ending(path));
    }
    if (key == name) {
      return fmt::format("'{}' is there, but is no audio file by its name (.wav, .flac, .ogg, .opus, .mp3 …)", path);
    }
  }
  for (const std::string& place : {field, std::string(Trim(field))}) {
    if (!Meant(place).empty()) {
      return fmt::format("'{}' lies outside of the folder '{}'; give a folder that holds all recordings", place,
                         folder_.string());
    }
  }
  if (const auto it = folded_.find(Folded(name)); it != folded_.end()) {
    return fmt::format("there is no audio file '{}', but '{}': write upper and lower case as in the name", field,
                       it->second);
  }
  return fmt::format("there is no audio file '{}' in '{}'", field, folder_.string());
}

std::string AudioFiles::ShortName(const std::string& path) const {
  const std::string stem = fs::path(path).stem().string();
  return by_name_.at(OneForm(stem)).size() == 1 ? stem : fs::path(path).replace_extension().string();
}

std::string AudioFiles::RemarkOnRest() const {
  std::vector<std::string> remarks;
  int files = 0;
  std::vector<std::string> endings;
  for (const auto& [ending, count] : formats_) {
    files += count;
    endings.push_back(ending);
  }
  if (files > 0) {
    remarks.push_back(fmt::format(
        "{} files are of formats that cannot be read without ffmpeg ({}): install that, or convert them to WAV or FLAC",
        files, fmt::join(endings, ", ")));
  }
  if (doubles_ > 0) {
    remarks.push_back(
        fmt::format("{} of a format that needs ffmpeg left out, for a WAV, FLAC, Ogg, Opus … of the same "
                    "name",
                    doubles_ == 1 ? "1 file" : fmt::format("{} files", doubles_)));
  }
  if (!dead_links_.empty()) {
    remarks.push_back(dead_links_.size() == 1
                          ? fmt::format("the link '{}' leads nowhere", dead_links_[0])
                          : fmt::format("{} links lead nowhere, the first: '{}'", dead_links_.size(), dead_links_[0]));
  }
  return fmt::format("{}", fmt::join(remarks, "; "));
}

std::vector<std::string> RecordingsIn(const std::vector<std::string>& places) {
  std::vector<std::string> recordings;
  std::error_code error;
  for (const std::string& place : places) {
    if (!fs::is_directory(place, error)) {
      recordings.push_back(place);
      continue;
    }
    const AudioFiles files(place);
    for (const std::string& path : files.paths()) recordings.push_back(files.folder() / path);
    if (const std::string remark = files.RemarkOnRest(); !remark.empty()) log::Warn("'{}': {}", place, remark);
  }
  return recordings;
}

std::vector<std::string> NamesOfRecordings(const std::vector<std::string>& files) {
  using NameOf = std::string (*)(const fs::path& file);
  constexpr NameOf kStem = [](const fs::path& file) { return file.stem().string(); };
  constexpr NameOf kWithFolders = [](const fs::path& file) { return fs::path(file).replace_extension().string(); };
  constexpr NameOf kWhole = [](const fs::path& file) { return file.string(); };
  std::vector<std::string> names(files.size());
  std::vector<size_t> alike(files.size());
  std::iota(alike.begin(), alike.end(), size_t{0});
  for (const NameOf name_of : {kStem, kWithFolders, kWhole}) {
    std::map<std::string, int> times;
    for (const size_t i : alike) {
      names[i] = name_of(fs::path(files[i]).lexically_normal());
      ++times[CleanId(names[i])];
    }
    std::erase_if(alike, [&](size_t i) { return times[CleanId(names[i])] == 1; });
  }
  return names;
}

bool IsAudioName(const fs::path& path) {
  static const std::set<std::string> k_endings = {".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif",
                                                  ".au",  ".sph",  ".oga", ".w64",  ".caf", ".wv"};
  return k_endings.contains(Ending(path));
}

bool IsReadableAudioName(const fs::path& path) {
  return IsAudioName(path) || (IsOtherSound(path) && feat::ForeignSoundIsRead());
}

std::string CleanId(const std::string& text) {
  std::string id = OneForm(text);
  for (char& c : id) {
    const auto u = static_cast<unsigned char>(c);
    if (u <= 0x20 || u == 0x7f || c == '/' || c == '|' || c == '[' || c == ']') c = '_';
  }
  return id;
}

}  // namespace antiphon::data
