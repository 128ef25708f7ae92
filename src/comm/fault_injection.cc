#include "comm/fault_injection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace antiphon::comm {
namespace {

struct Fault {
  std::string action;
  std::string point;
  std::string once;
  std::string until;
  int64_t rank = 0;
  int64_t step = 0;
  int64_t seconds = 1;
  int64_t bytes = 0;
};

constexpr auto kPause = std::chrono::milliseconds(5);
constexpr auto kDrag = std::chrono::milliseconds(100);
constexpr auto kLongestHold = std::chrono::minutes(5);

std::atomic<bool> damage = false;

Fault ParseFault(const std::string& text) {
  Fault fault;
  std::istringstream words(text);
  words >> fault.action;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto number = [&](int64_t& into) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), into);
      return error == std::errc() && end == value.data() + value.size();
    };
    const bool known = key == "at"        ? (fault.point = value, true)
                       : key == "once"    ? (fault.once = value, true)
                       : key == "until"   ? (fault.until = value, true)
                       : key == "rank"    ? number(fault.rank)
                       : key == "step"    ? number(fault.step)
                       : key == "seconds" ? number(fault.seconds)
                       : key == "bytes"   ? number(fault.bytes)
                                          : false;
    if (!known) Throw<UsageError>("ANTIPHON_FAULT: '{}' in '{}' is not understood", word, text);
  }
  constexpr std::array kActions = {"kill", "stop", "slow", "hold", "drag", "corrupt", "full"};
  if (std::find(kActions.begin(), kActions.end(), fault.action) == kActions.end()) {
    Throw<UsageError>("ANTIPHON_FAULT: '{}' is none of {}", fault.action, fmt::join(kActions, ", "));
  }
  if ((fault.action == "hold" || fault.action == "drag") && fault.until.empty()) {
    Throw<UsageError>("ANTIPHON_FAULT: '{}' in '{}' needs until=FILE", fault.action, text);
  }
  return fault;
}

const std::vector<Fault>& Faults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> all;
    const char* text = std::getenv("ANTIPHON_FAULT");
    std::istringstream parts(text == nullptr ? "" : text);
    for (std::string part; std::getline(parts, part, ';');) all.push_back(ParseFault(part));
    return all;
  }();
  return faults;
}

// False if it happened before.
bool Mark(const Fault& fault) {
  if (fault.once.empty()) return true;
  const int file = ::open(fault.once.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0) ::close(file);
  return file >= 0;
}

void HoldUntil(const std::filesystem::path& file) {
  const auto end = std::chrono::steady_clock::now() + kLongestHold;
  while (!std::filesystem::exists(file) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
  }
}

void LimitFiles(int64_t bytes) {
  ::rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(bytes);
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace

void FaultPoint(std::string_view point, int rank, int64_t step) {
  for (const Fault& fault : Faults()) {
    if (fault.point != point || fault.rank != rank || step < fault.step || !Mark(fault)) continue;
    if (fault.action == "kill") ::raise(SIGKILL);
    if (fault.action == "stop") ::kill(::getpid(), SIGSTOP);
    const bool waits = fault.action == "slow" || fault.action == "hold";
    if (waits) std::this_thread::sleep_for(std::chrono::seconds(fault.seconds));
    if (fault.action == "hold") HoldUntil(fault.until);
    if (fault.action == "drag" && !std::filesystem::exists(fault.until)) std::this_thread::sleep_for(kDrag);
    if (fault.action == "corrupt") damage = true;
    if (fault.action == "full") LimitFiles(fault.bytes);
  }
}

bool TakeDamage() { return damage && damage.exchange(false); }

}  // namespace antiphon::comm
