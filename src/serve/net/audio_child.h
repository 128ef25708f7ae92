// A recording's samples, decoded by a process of its own.
//
// Decoders of foreign formats are the code that strangers' bytes attack best. They run in a child with limits of memory
// and time (`antiphon samples`), which gets the recording as its standard input and nothing else.
//
//   AudioChild child(executor, program, std::move(file), limits);
//   child.Read([&](AudioPiece piece) { … child.Read(…) … });
//
// Units: samples in −1 … 1, one channel. Threads: one; the reply comes through the executor.
// Errors: in the piece; IoError from the constructor if no child can be started.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "serve/limits.h"
#include "serve/net/beast.h"

namespace antiphon::serve {

struct AudioPiece {
  int sample_rate_hz = 0;
  std::vector<float> samples = {};  // empty: the end
  std::string error = {};           // why there are no more; "": none
};

class AudioChild : public std::enable_shared_from_this<AudioChild> {
 public:
  using Reply = std::function<void(AudioPiece)>;

  AudioChild(const asio::any_io_executor& executor, const std::string& program, FileDescriptor recording,
             const LimitOptions& limits);
  /// Ends the child if it still runs.
  ~AudioChild();
  AudioChild(const AudioChild&) = delete;

  /// The next samples, some thousands; one call at a time.
  void Read(Reply reply);
  void Kill();

 private:
  void OnBytes(ErrorCode error, size_t count);
  void OnMessage(ErrorCode error, size_t count);
  void Deliver();
  void ReadMessages();
  void AwaitExitIfSilent();
  void AwaitExit(int tries);
  void Finish(std::string error);
  std::string WhyItFailed(int status) const;

  const double limit_s_;
  asio::posix::stream_descriptor out_, messages_;
  asio::steady_timer deadline_, exit_;
  pid_t pid_ = -1;
  bool timed_out_ = false;
  bool reads_messages_ = false;
  bool out_ended_ = false, messages_ended_ = false;
  Reply reply_;
  int sample_rate_hz_ = 0;  // 0: its line has not come yet
  std::string bytes_;       // that are no piece yet
  std::vector<char> buffer_;
  std::shared_ptr<std::vector<char>> message_buffer_;  // shared with the reading, which may outlive this
  std::string message_;                                // the last of the child's standard error
};

}  // namespace antiphon::serve
