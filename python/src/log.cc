#include <antiphon/log.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"

namespace antiphon::python {
namespace {

// Messages on their way to Python. The library's threads put them here without waiting for the interpreter's lock,
// which somebody may hold who waits for them.
struct Messages {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, std::string>> waiting;  // guarded by mutex, as is
  bool open = false;
};

// Never destroyed: a thread of the library may outlive static objects.
std::atomic<Messages*>& TheMessages() {
  static std::atomic<Messages*> messages = new Messages;
  return messages;
}

// The mutex that a forked process has of the other one may be locked for good.
void Renew() {
  auto* const fresh = new Messages;
  fresh->open = true;
  TheMessages() = fresh;
}

void Open() {
  Renew();
  const auto keep = [](LogLevel level, std::string_view text) {
    Messages& messages = *TheMessages();
    const std::lock_guard lock(messages.mutex);
    if (!messages.open) return;
    messages.waiting.emplace_back(static_cast<int>(level), text);
    messages.changed.notify_one();
  };
  SetLogCallback(keep, LogLevel::kDebug);  // Python's logger has a level of its own
}

void Close() {
  SetLogCallback({});
  Messages& messages = *TheMessages();
  const std::lock_guard lock(messages.mutex);
  messages.open = false;
  messages.changed.notify_one();
}

// Waits for some; none once the log is closed.
nb::list Next() {
  const auto waiting = Unlocked([] {
    Messages& messages = *TheMessages();
    std::unique_lock lock(messages.mutex);
    messages.changed.wait(lock, [&] { return !messages.waiting.empty() || !messages.open; });
    return std::exchange(messages.waiting, {});
  });
  nb::list texts;
  for (const auto& [level, text] : waiting) texts.append(nb::make_tuple(level, Readable(text)));
  return texts;
}

}  // namespace

void BindLog(nb::module_& m) {
  m.def("open_log", &Open, "Messages are kept for next_messages from now on.");
  m.def("renew_log", &Renew, "In a forked process: other messages, to be waited for by another thread.");
  m.def("close_log", &Close, nb::call_guard<WithoutLock>(), "No more messages.");
  m.def("next_messages", &Next, nb::sig("def next_messages() -> list[tuple[int, str]]"),
        "Waits; (level, text) of each, nothing once the log is closed.");
}

}  // namespace antiphon::python
