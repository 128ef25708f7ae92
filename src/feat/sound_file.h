// A file of recorded sound, open for reading by libsndfile, with its name for errors.
//
// Threads: one per object; many may be opened at once. Errors: InputError naming the file, and why it cannot be read.
#pragma once

#include <sndfile.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "feat/sound_source.h"

namespace antiphon::feat {

class SoundFile : public SoundSource {
 public:
  /// Of a format that libsndfile does not know nothing but the name and WhyNot() may be asked.
  explicit SoundFile(const std::filesystem::path& path);
  SoundFile(std::span<const std::byte> bytes, std::string name);
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  bool is_known() const { return file_ != nullptr; }
  /// Whether it is a file that somebody else might know: not a pipe, not empty.
  bool may_be_foreign() const { return may_be_foreign_; }
  /// A sentence that names the file.
  std::string WhyNot() const;

  const std::string& name() const override { return name_; }
  int sample_rate_hz() const override { return info_.samplerate; }
  int num_channels() const override { return info_.channels; }
  std::string Format() const override;
  std::optional<int64_t> num_samples() const override { return num_samples_; }
  /// InputError if only the end of a pipe will say.
  int64_t CountSamples() const override;
  void RefuseCutShort() const override;
  void GoTo(int64_t begin) override;
  int64_t Read(int64_t count, float* out) override;

 private:
  // A file as libsndfile is to see it: pieces of memory, one behind the other.
  struct Bytes {
    std::vector<std::span<const std::byte>> pieces = {};
    std::vector<sf_count_t> ends = {};  // of each, counted from the beginning of the first
    sf_count_t position = 0;
    bool to_the_end = false;  // read so that libsndfile takes the samples to reach to the end

    void Add(std::span<const std::byte> piece);
    sf_count_t size() const { return ends.empty() ? 0 : ends.back(); }
    void Copy(sf_count_t count, char* to) const;  // from `position` on, of what is there
  };
  // Of the samples, in bytes.
  struct DataLength {
    int64_t claimed = -1;  // by a WAV's header
    int64_t found = -1;    // where that is less than claimed
  };
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };

  static SF_VIRTUAL_IO ReadingBytes();
  // `twice`: whether it is there a second time, as a pipe is not.
  void Open(const std::function<SNDFILE*()>& open, bool twice);
  void OpenBytes();
  bool ClaimsNothing() const;
  bool IsMpeg() const;
  // Of an MP3, in a container too, that does not say it; false if nothing is to be done.
  bool TellLength(std::span<const std::byte> file);
  void Check(bool empty) const;
  DataLength LengthOfData() const;
  void FindLength();

  std::string name_;
  std::optional<MappedFile> mapped_;  // of `seen_` if they are those of a file
  std::span<const std::byte> given_;  // bytes in the place of a file
  std::string length_frame_;          // that an MP3 lacks
  std::optional<DataLength> told_;    // of a container whose MP3 is seen without it
  bool tells_length_ = true;
  Bytes seen_;
  bool once_ = false;  // a pipe
  int64_t read_ = 0;   // samples up to now
  std::optional<int64_t> num_samples_;
  SF_INFO info_{};
  std::unique_ptr<SNDFILE, Close> file_;
  std::string why_not_ = "its format is not known.";
  bool may_be_foreign_ = false;
  std::vector<short> shorts_;
};

}  // namespace antiphon::feat
