// What clients may ask of a server, and how much of it at a time.
//
// Units: seconds, bytes. Threads: plain data; a RateLimit belongs to one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/options.h"

namespace antiphon::serve {

struct LimitOptions {
  int connections = 500;
  int streams = 100;
  int uploads = 4;
  double delay_s = 2.0;
  int64_t frame_bytes = 1 << 20;
  int messages_per_s = 1000;
  double queue_s = 30.0;
  double idle_s = 60.0;
  double stream_s = 14400.0;
  int64_t upload_bytes = 256 << 20;
  double upload_s = 600.0;
  int64_t decoder_bytes = int64_t{1} << 30;
  double grace_s = 30.0;

  template <class V>
  void Visit(V& v) {
    v("connections", connections, Range{1, 100000}, "at a time; further ones get 503");
    v("streams", streams, Range{1, 100000}, "live streams at a time; further ones get close code 1013");
    v("uploads", uploads, Range{0, 1000}, "recordings that are received or recognised at a time; further ones get 503");
    v("delay", delay_s, Range{0.05, 600.0},
      "seconds that heard speech may wait for a thread before new streams and uploads are refused");
    v("frame-bytes", frame_bytes, Range{1024, 1 << 28}, "of one message of a client");
    v("messages", messages_per_s, Range{1, 1000000}, "of one client per second; further ones wait");
    v("queue", queue_s, Range{0.1, 3600.0}, "seconds of speech of one stream that may wait; then its client waits");
    v("idle", idle_s, Range{0.2, 86400.0}, "seconds without a message, or an answer, after which a client is let go");
    v("stream-length", stream_s, Range{1.0, 1e7}, "seconds of speech of one stream, or one recording");
    v("upload-bytes", upload_bytes, Range{1024, 1e12}, "of one recording");
    v("upload-time", upload_s, Range{1.0, 86400.0}, "seconds for receiving a recording, and for decoding its format");
    v("decoder-bytes", decoder_bytes, Range{1 << 26, 1e12}, "of memory of the process that decodes a recording");
    v("grace", grace_s, Range{0.0, 86400.0}, "seconds that streams may go on after SIGTERM, before they are ended");
  }
};

/// So many events a second, and bursts of as many: how long the next one has to wait.
class RateLimit {
 public:
  explicit RateLimit(double per_second) : per_second_(per_second), left_(per_second) {}
  /// Takes one at the time `now_s`; returns the seconds after which it may be looked at, usually 0.
  double Take(double now_s) {
    left_ = std::min(per_second_, left_ + (now_s - last_s_) * per_second_);
    last_s_ = now_s;
    left_ -= 1;
    return left_ >= 0 ? 0.0 : -left_ / per_second_;
  }

 private:
  double per_second_;
  double left_;
  double last_s_ = 0;
};

}  // namespace antiphon::serve
