#include "serve/net/audio_child.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/algorithm/string/erase.hpp>
#include <boost/algorithm/string/replace.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/asio/read.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/spawn.h"

namespace antiphon::serve {
namespace {

constexpr char kInput[] = "/dev/stdin";
constexpr size_t kPipeBytes = 1 << 16;
constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxMessage = 4096;
constexpr int kExitTries = 200;  // 10 ms apart

// Of the decoder's first line; 0: it says none.
int RateOf(const std::string& line) {
  const auto header = nlohmann::json::parse(line, nullptr, false);
  if (!header.is_object() || !header.contains("rate") || !header["rate"].is_number_integer()) return 0;
  const auto rate_hz = header["rate"].get<int64_t>();
  return rate_hz > 0 && std::in_range<int>(rate_hz) ? static_cast<int>(rate_hz) : 0;
}

// What the decoder says last, without what is the decoder's own: its name, and that of the file that it reads.
std::string SaidOfRecording(std::string_view messages) {
  constexpr std::string_view kError = "antiphon: error: ", kCommand = "antiphon samples:";
  std::string_view said = messages;
  if (const size_t at = said.rfind(kError); at != std::string_view::npos) said.remove_prefix(at + kError.size());
  if (said.starts_with(kCommand)) said.remove_prefix(kCommand.size());
  std::string text = boost::algorithm::trim_copy(std::string(said));
  boost::algorithm::replace_all(text, fmt::format("'{}'", kInput), "the recording");
  boost::algorithm::erase_all(text, fmt::format("file:{}: ", kInput));  // as ffmpeg calls it
  return text;
}

}  // namespace

AudioChild::AudioChild(const asio::any_io_executor& executor, const std::string& program, FileDescriptor recording,
                       const LimitOptions& limits)
    : limit_s_(limits.upload_s),
      out_(executor),
      messages_(executor),
      deadline_(executor),
      exit_(executor),
      buffer_(kPipeBytes),
      message_buffer_(std::make_shared<std::vector<char>>(kPipeBytes)) {
  Pipe out = NewPipe(program), messages = NewPipe(program);
  const FileDescriptor in = std::move(recording);
  // A group of its own, so that what it starts (ffmpeg) ends with it.
  const std::optional<pid_t> process =
      Spawn({program, "samples", kInput, "--header", "--format", "f32", "--max-memory",
             std::to_string(limits.decoder_bytes), "--max-seconds", fmt::format("{}", limits.upload_s)},
            {.input = in.get(),
             .output = out.write.get(),
             .messages = messages.write.get(),
             .own_group = true,
             .close_others = true});
  if (!process) ThrowIo("start", program, ENOENT);
  pid_ = *process;
  out_.assign(out.read.release());
  messages_.assign(messages.read.release());
}

AudioChild::~AudioChild() {
  Kill();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);  // was killed: this does not last
}

void AudioChild::Kill() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

void AudioChild::Read(Reply reply) {
  reply_ = std::move(reply);
  deadline_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(limit_s_ * 1000)));
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->timed_out_ = true;
    self->Kill();
  });
  if (!std::exchange(reads_messages_, true)) ReadMessages();
  Deliver();
}

// A line of JSON, then samples as they lie in memory.
void AudioChild::Deliver() {
  if (sample_rate_hz_ == 0) {
    const size_t end = bytes_.find('\n');
    if (end != std::string::npos) {
      sample_rate_hz_ = RateOf(bytes_.substr(0, end));
      bytes_.erase(0, end + 1);
    }
    if (end != std::string::npos ? sample_rate_hz_ <= 0 : bytes_.size() > kMaxLine) {
      return Finish("the decoder of recordings said something that is no header");
    }
  }
  const size_t count = sample_rate_hz_ > 0 ? bytes_.size() / sizeof(float) : 0;
  if (count > 0) {
    AudioPiece piece{.sample_rate_hz = sample_rate_hz_, .samples = std::vector<float>(count), .error = {}};
    std::memcpy(piece.samples.data(), bytes_.data(), count * sizeof(float));
    bytes_.erase(0, count * sizeof(float));
    deadline_.cancel();
    return std::exchange(reply_, nullptr)(std::move(piece));
  }
  out_.async_read_some(asio::buffer(buffer_),
                       [self = shared_from_this()](ErrorCode error, size_t read) { self->OnBytes(error, read); });
}

void AudioChild::OnBytes(ErrorCode error, size_t count) {
  if (error) {
    out_ended_ = true;
    return AwaitExitIfSilent();
  }
  bytes_.append(buffer_.data(), count);
  Deliver();
}

// All the time, wanted or not: the child stops when the pipe of its messages is full.
void AudioChild::ReadMessages() {
  messages_.async_read_some(asio::buffer(*message_buffer_),
                            [weak = weak_from_this(), buffer = message_buffer_](ErrorCode error, size_t count) {
                              if (const auto self = weak.lock()) self->OnMessage(error, count);
                            });
}

void AudioChild::OnMessage(ErrorCode error, size_t count) {
  if (error) {
    messages_ended_ = true;
    return AwaitExitIfSilent();
  }
  message_.append(message_buffer_->data(), count);
  // Why it failed is said last.
  if (message_.size() > kMaxMessage) message_.erase(0, message_.size() - kMaxMessage);
  ReadMessages();
}

// The child closed both: its messages say what went wrong, its status how it ended.
void AudioChild::AwaitExitIfSilent() {
  if (out_ended_ && messages_ended_) AwaitExit(kExitTries);
}

void AudioChild::AwaitExit(int tries) {
  if (tries == 0) Kill();
  siginfo_t ended{};
  const int at_once = tries == 0 ? 0 : WNOHANG;
  const bool known = ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT | at_once) == 0;
  if (known && ended.si_pid == 0) {
    exit_.expires_after(std::chrono::milliseconds(10));
    exit_.async_wait([self = shared_from_this(), tries](ErrorCode) { self->AwaitExit(tries - 1); });
    return;
  }
  Kill();  // what it left behind, while its number is still its own
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  Finish(WhyItFailed(status));
}

std::string AudioChild::WhyItFailed(int status) const {
  if (timed_out_) return fmt::format("decoding the recording took longer than {} s", limit_s_);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return sample_rate_hz_ > 0 ? "" : "the recording has no sound";
  if (const std::string said = SaidOfRecording(message_); !said.empty()) return said;
  return "decoding the recording took more memory or time than a recording may";
}

void AudioChild::Finish(std::string error) {
  deadline_.cancel();
  if (const Reply reply = std::exchange(reply_, nullptr)) {
    reply({.sample_rate_hz = sample_rate_hz_, .samples = {}, .error = std::move(error)});
  }
}

}  // namespace antiphon::serve
