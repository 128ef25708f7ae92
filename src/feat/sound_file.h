// A file of recorded sound, open for reading by libsndfile, with its name for errors.
//
// Threads: one per object; many may be opened at once. Errors: InputError naming the file, and why it cannot be read.
#pragma once

#include <sndfile.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace antiphon::feat {

class SoundFile {
 public:
  explicit SoundFile(const std::filesystem::path& path);
  /// The bytes of a file called `name`; they must outlive this.
  SoundFile(std::span<const std::byte> bytes, std::string name);
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  SNDFILE* get() const { return file_.get(); }
  const SF_INFO& info() const { return info_; }
  const std::string& name() const { return name_; }
  /// In libsndfile's words.
  std::string Format() const;

 private:
  struct Bytes {
    std::span<const std::byte> bytes;
    sf_count_t position = 0;
  };
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };

  static SF_VIRTUAL_IO ReadingBytes();
  // `twice`: whether it is there a second time, as a pipe is not.
  void Open(const std::function<SNDFILE*()>& open, bool twice);
  void CheckOpen(bool empty) const;

  std::string name_;
  Bytes bytes_;
  SF_INFO info_{};
  std::unique_ptr<SNDFILE, Close> file_;
  std::string why_not_ = "its format is not known.";
};

}  // namespace antiphon::feat
