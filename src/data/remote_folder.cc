#include "data/remote_folder.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/io_error.h"
#include "base/log.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMs = 100;  // between looks at whether to stop
constexpr long kMostRedirects = 5;
constexpr long kStalledBytesPerSecond = 1000;
constexpr double kFirstPauseSeconds = 0.25;
constexpr double kLongestPauseSeconds = 30;
// What an attempt has to bring to be progress.
constexpr uint64_t kProgressBytes = 1 << 20;
constexpr size_t kReasonBytes = 2048;
// What requests for files have as a body.
constexpr std::string_view kSha256OfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// What a reader of the answer does with the bytes from place `at` of the file on.
using Put = std::function<void(uint64_t at, std::span<const char> bytes)>;

// One request and its answer.
struct Transfer {
  CURL* easy = nullptr;
  const Put* put = nullptr;
  std::optional<uint64_t> expected;  // bytes of the whole file, if known
  uint64_t most = 0;
  uint64_t at = 0;  // place in the file of the next byte
  bool begun = false;
  std::optional<uint64_t> range_first;  // of Content-Range
  std::optional<uint64_t> range_total;
  std::string reason;            // the beginning of an answer that is no file
  std::string wrong;             // with what came, for good; empty: nothing
  std::exception_ptr exception;  // of Put
};

long Status(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

bool IsFile(long status) { return status == 200 || status == 206; }

// Before the first byte of a file: where it stands, and whether the file is the one that was expected.
void Begin(Transfer& t) {
  t.begun = true;
  std::optional<uint64_t> total;
  if (Status(t.easy) == 206) {
    if (t.range_first != t.at) {
      t.wrong = "the server sends another part of the file than it was asked for";
      return;
    }
    total = t.range_total;
  } else {
    t.at = 0;  // the server knows no parts of files
    curl_off_t length = -1;
    curl_easy_getinfo(t.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length >= 0) total = static_cast<uint64_t>(length);
  }
  if (total && t.expected && *total != *t.expected) {
    t.wrong = fmt::format("the file has {} bytes, expected {}: it was replaced, or is still being copied there", *total,
                          *t.expected);
  }
}

size_t OnBody(char* data, size_t, size_t size, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  try {
    if (!IsFile(Status(t.easy))) {
      t.reason.append(data, std::min(size, kReasonBytes - std::min(kReasonBytes, t.reason.size())));
      return size;
    }
    if (!t.begun) Begin(t);
    if (t.wrong.empty() && t.at + size > t.most) {
      t.wrong = fmt::format("the file has more than the {} bytes that were expected", t.most);
    }
    if (!t.wrong.empty()) return CURL_WRITEFUNC_ERROR;
    (*t.put)(t.at, {data, size});
    t.at += size;
    return size;
  } catch (...) {
    t.exception = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

size_t OnHeader(char* data, size_t, size_t size, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  const std::string_view line(data, size);
  constexpr std::string_view kName = "content-range:";
  const bool is_range = size > kName.size() && std::equal(kName.begin(), kName.end(), line.begin(), [](char a, char b) {
                          return a == (b >= 'A' && b <= 'Z' ? b + ('a' - 'A') : b);
                        });
  if (line.starts_with("HTTP/")) t.range_first = t.range_total = std::nullopt;
  if (!is_range) return size;
  const size_t digits = line.find_first_of("0123456789", kName.size());
  const size_t slash = line.find('/');
  if (digits != std::string_view::npos) t.range_first = Number(line.substr(digits));
  if (slash != std::string_view::npos) t.range_total = Number(line.substr(slash + 1));
  return size;
}

// "AccessDenied: …" of S3's answers; nothing of pages made for browsers.
std::string ReasonOf(const std::string& body) {
  const auto element = [&](const std::string& name) -> std::string {
    const size_t begin = body.find("<" + name + ">");
    const size_t end = body.find("</" + name + ">");
    if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
    std::string text = body.substr(begin + name.size() + 2, end - begin - name.size() - 2);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return text.substr(0, 300);
  };
  const std::string code = element("Code");
  return code.empty() ? "" : fmt::format(" ({}: {})", code, element("Message"));
}

// How an attempt went wrong.
struct Failure {
  std::string what;
  bool for_good = false;
  double pause_seconds = 0;  // that the server asks for
};

std::string AdviceFor(long status, const RemotePlace& place) {
  if (status == 404 || status == 410) return "is this the address of a frame store's folder, copied there whole?";
  if (status == 401 || status == 403) {
    if (!place.is_s3) return "access is refused: put name and password for this host into ~/.netrc";
    return place.key_id.empty() ? "access is refused, and no keys are given: set AWS_ACCESS_KEY_ID and "
                                  "AWS_SECRET_ACCESS_KEY (and AWS_ENDPOINT_URL, if the server is not Amazon's)"
                                : "access is refused: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
                                  "AWS_SESSION_TOKEN, AWS_REGION, and this machine's clock";
  }
  if (status >= 300 && status < 400 && place.is_s3)
    return "the bucket lies elsewhere: set AWS_REGION or AWS_ENDPOINT_URL";
  return "the server refuses the request";
}

Failure OfStatus(const Transfer& t, const RemotePlace& place) {
  const long status = Status(t.easy);
  Failure failure;
  failure.what = fmt::format("HTTP status {}{}", status, ReasonOf(t.reason));
  failure.for_good = status < 500 && status != 408 && status != 425 && status != 429;
  if (failure.for_good) failure.what += "; " + AdviceFor(status, place);
  curl_off_t pause = 0;
  curl_easy_getinfo(t.easy, CURLINFO_RETRY_AFTER, &pause);
  failure.pause_seconds = static_cast<double>(pause);
  return failure;
}

bool IsForGood(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

Failure OfCode(CURLcode code, const char* text) {
  Failure failure{*text != '\0' ? text : curl_easy_strerror(code), IsForGood(code)};
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    failure.what += "; CURL_CA_BUNDLE can name a file of certificates to trust";
  }
  return failure;
}

void WriteAt(int target, const fs::path& path, uint64_t at, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(target, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ThrowIo("write", path, n == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
}

void Pause(double seconds, const RemoteFolder::Stop& stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!stop() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs / 2));
  }
}

}  // namespace

struct RemoteFolder::Connection {
  explicit Connection(const RemotePlace& its_place) : place(its_place) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    CHECK(ready == CURLE_OK) << curl_easy_strerror(ready);
    multi = curl_multi_init();
    easy = curl_easy_init();
    CHECK(multi != nullptr && easy != nullptr) << "libcurl has no memory";
    if (place.key_id.empty()) return;
    // Signed, too. libcurl leaves the first to the caller before release 8.
    headers = curl_slist_append(headers, fmt::format("x-amz-content-sha256:{}", kSha256OfNothing).c_str());
    if (!place.session_token.empty()) {
      headers = curl_slist_append(headers, ("x-amz-security-token:" + place.session_token).c_str());
    }
  }
  ~Connection() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
  }

  template <class T>
  void Set(CURLoption option, T value) {
    const CURLcode code = curl_easy_setopt(easy, option, value);
    CHECK(code == CURLE_OK) << "libcurl option " << option << ": " << curl_easy_strerror(code);
  }
  void Prepare(const std::string& url, const FetchOptions& options, Transfer& transfer);
  CURLcode Perform(const Stop& stop);
  std::optional<Failure> Attempt(const std::string& url, const FetchOptions& options, Transfer& transfer,
                                 const Stop& stop);
  void Get(const std::string& url, const FetchOptions& options, Transfer transfer, const Stop& stop);

  const RemotePlace& place;
  CURLM* multi = nullptr;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  char error[CURL_ERROR_SIZE] = {};
  std::mutex mutex;
};

void RemoteFolder::Connection::Prepare(const std::string& url, const FetchOptions& options, Transfer& transfer) {
  curl_easy_reset(easy);
  error[0] = '\0';
  const char* const protocols = url.starts_with("http://") ? "http,https" : "https";
  const auto stall = static_cast<long>(std::ceil(options.fetch_stall_s));
  Set(CURLOPT_URL, url.c_str());
  Set(CURLOPT_PROTOCOLS_STR, protocols);
  Set(CURLOPT_REDIR_PROTOCOLS_STR, protocols);
  Set(CURLOPT_FOLLOWLOCATION, place.is_s3 ? 0L : 1L);
  Set(CURLOPT_MAXREDIRS, kMostRedirects);
  Set(CURLOPT_SSL_VERIFYPEER, 1L);
  Set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!place.ca_file.empty()) Set(CURLOPT_CAINFO, place.ca_file.c_str());
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_QUICK_EXIT, 1L);  // a name that nobody resolves holds nothing up
  Set(CURLOPT_CONNECTTIMEOUT, stall);
  Set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
  Set(CURLOPT_LOW_SPEED_TIME, stall);
  Set(CURLOPT_USERAGENT, "antiphon");
  Set(CURLOPT_ERRORBUFFER, error);
  Set(CURLOPT_WRITEFUNCTION, &OnBody);
  Set(CURLOPT_WRITEDATA, &transfer);
  Set(CURLOPT_HEADERFUNCTION, &OnHeader);
  Set(CURLOPT_HEADERDATA, &transfer);
  if (transfer.at > 0) Set(CURLOPT_RANGE, fmt::format("{}-", transfer.at).c_str());
  if (!place.is_s3) {
    Set(CURLOPT_NETRC, long{CURL_NETRC_OPTIONAL});
  } else if (!place.key_id.empty()) {
    Set(CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", place.region).c_str());
    Set(CURLOPT_USERNAME, place.key_id.c_str());
    Set(CURLOPT_PASSWORD, place.secret.c_str());
    Set(CURLOPT_HTTPHEADER, headers);
  }
}

CURLcode RemoteFolder::Connection::Perform(const Stop& stop) {
  CHECK(curl_multi_add_handle(multi, easy) == CURLM_OK);
  CURLcode result = CURLE_OK;
  for (int running = 1; running > 0;) {
    CURLMcode code = stop() ? CURLM_LAST : curl_multi_perform(multi, &running);
    if (code == CURLM_OK && running > 0) code = curl_multi_poll(multi, nullptr, 0, kLookMs, nullptr);
    if (code == CURLM_OK) continue;
    result = CURLE_ABORTED_BY_CALLBACK;
    break;
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  }
  curl_multi_remove_handle(multi, easy);
  return result;
}

// Nothing: the file is there.
std::optional<Failure> RemoteFolder::Connection::Attempt(const std::string& url, const FetchOptions& options,
                                                         Transfer& transfer, const Stop& stop) {
  transfer.easy = easy;
  transfer.begun = false;
  transfer.reason.clear();
  transfer.range_first = transfer.range_total = std::nullopt;
  Prepare(url, options, transfer);
  const CURLcode code = Perform(stop);
  if (stop()) throw Cancelled("stopped on request while fetching from a server");
  if (transfer.exception) std::rethrow_exception(transfer.exception);
  if (!transfer.wrong.empty()) return Failure{transfer.wrong, true};
  const bool is_whole = transfer.begun && transfer.at == transfer.expected;
  if (code != CURLE_OK && !is_whole) return OfCode(code, error);
  if (!IsFile(Status(easy))) return OfStatus(transfer, place);
  if (!transfer.begun) Begin(transfer);
  if (!transfer.wrong.empty()) return Failure{transfer.wrong, true};
  if (transfer.expected && transfer.at < *transfer.expected) {
    return Failure{fmt::format("the answer ends after {} of {} bytes", transfer.at, *transfer.expected)};
  }
  return std::nullopt;
}

void RemoteFolder::Connection::Get(const std::string& url, const FetchOptions& options, Transfer transfer,
                                   const Stop& stop) {
  const std::lock_guard lock(mutex);
  for (int in_vain = 0;;) {
    const uint64_t before = transfer.at;
    const std::optional<Failure> failure = Attempt(url, options, transfer, stop);
    if (!failure) return;
    if (failure->for_good) Throw<InputError>("cannot fetch '{}': {}", url, failure->what);
    in_vain = transfer.at >= before + kProgressBytes ? 1 : in_vain + 1;
    if (in_vain >= options.fetch_attempts) {
      Throw<InputError>(
          "cannot fetch '{}': {}; {} attempts brought nothing. Is the server up and reachable from here? "
          "data.fetch-attempts and data.fetch-stall-s say how long it is given",
          url, failure->what, in_vain);
    }
    if (!transfer.expected) transfer.at = 0;
    const double pause = std::max(kFirstPauseSeconds * std::exp2(in_vain - 1), failure->pause_seconds);
    log::Warn("'{}' is fetched again from byte {}: {}", url, transfer.at, failure->what);
    Pause(std::min(pause, kLongestPauseSeconds), stop);
  }
}

std::string CurlLibrary() { return curl_version(); }

RemoteFolder::RemoteFolder(std::string_view address, FetchOptions options)
    : place_(RemotePlace::Parse(address)), options_(options), connection_(std::make_unique<Connection>(place_)) {}
RemoteFolder::~RemoteFolder() = default;

std::string RemoteFolder::Read(const std::string& name, uint64_t most_bytes, const Stop& stop) const {
  std::string text;
  const Put put = [&](uint64_t at, std::span<const char> bytes) {
    text.resize(at);
    text.append(bytes.data(), bytes.size());
  };
  Transfer transfer;
  transfer.put = &put;
  transfer.most = most_bytes;
  connection_->Get(UrlOf(name), options_, transfer, stop);
  return text;
}

void RemoteFolder::Fetch(const std::string& name, uint64_t bytes, int target, const fs::path& target_path,
                         const Stop& stop) const {
  const Put put = [&](uint64_t at, std::span<const char> piece) { WriteAt(target, target_path, at, piece); };
  Transfer transfer;
  transfer.put = &put;
  transfer.expected = transfer.most = bytes;
  connection_->Get(UrlOf(name), options_, transfer, stop);
}

}  // namespace antiphon::data
