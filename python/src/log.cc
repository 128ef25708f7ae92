#include <antiphon/log.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

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
Messages& TheMessages() {
  static auto* const messages = new Messages;
  return *messages;
}

void Open() {
  TheMessages().open = true;
  SetLogCallback([](LogLevel level, std::string_view text) {
    Messages& messages = TheMessages();
    const std::lock_guard lock(messages.mutex);
    if (!messages.open) return;
    messages.waiting.emplace_back(static_cast<int>(level), text);
    messages.changed.notify_one();
  });
}

void Close() {
  SetLogCallback({});
  Messages& messages = TheMessages();
  const std::lock_guard lock(messages.mutex);
  messages.open = false;
  messages.changed.notify_one();
}

// Waits for some; none once the log is closed.
std::vector<std::pair<int, std::string>> Next() {
  return Unlocked([] {
    Messages& messages = TheMessages();
    std::unique_lock lock(messages.mutex);
    messages.changed.wait(lock, [&] { return !messages.waiting.empty() || !messages.open; });
    return std::exchange(messages.waiting, {});
  });
}

}  // namespace

void BindLog(nb::module_& m) {
  m.def("open_log", &Open, "Messages are kept for next_messages from now on.");
  m.def("close_log", &Close, nb::call_guard<nb::gil_scoped_release>(), "No more messages.");
  m.def("next_messages", &Next, "Waits; (level, text) of each, nothing once the log is closed.");
}

}  // namespace antiphon::python
