// A registry per component family: name → factory. A layer, strategy or kernel is one new file that registers itself.
//
//   // nn/layers/foo.cc
//   REGISTER_COMPONENT(Layer, "foo", [](const LayerConfig& c) { return std::make_unique<Foo>(c); });
//
// Threads: registration happens before main; look-ups afterwards are read-only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace antiphon {

/// One REGISTER_… line that took effect.
struct Registration {
  std::string file;  // the source file, as the compiler saw it
  std::string name;
};

/// Every registration of this program, so that a test can hold it against the sources: a static library that is not
/// linked whole loses its registrations silently.
const std::vector<Registration>& AllRegistrations();

namespace internal {
bool RecordRegistration(const char* file, std::string name);
}  // namespace internal

/// Factories for Interface from Args. The family's header defines `using FooRegistry = Registry<Foo, Args…>`.
template <class Interface, class... Args>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Interface>(Args...)>;

  static Registry& Get() {
    static Registry registry;
    return registry;
  }

  bool Add(std::string name, Factory factory) {
    if (!factories_.emplace(name, std::move(factory)).second) Throw<InternalError>("'{}' is registered twice", name);
    return true;
  }

  bool Has(std::string_view name) const { return factories_.find(name) != factories_.end(); }

  /// Throws UsageError that lists the valid names and the nearest one.
  std::unique_ptr<Interface> Create(std::string_view name, Args... args) const {
    const auto it = factories_.find(name);
    if (it == factories_.end()) throw UsageError(UnknownNameMessage("component", name, Names()));
    return it->second(std::forward<Args>(args)...);
  }

  /// Sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, factory] : factories_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

}  // namespace antiphon

#define ANTIPHON_CONCAT_(a, b) a##b
#define ANTIPHON_CONCAT(a, b) ANTIPHON_CONCAT_(a, b)
#define REGISTER_COMPONENT(RegistryType, name, ...)                              \
  [[maybe_unused]] static const bool ANTIPHON_CONCAT(registered_, __COUNTER__) = \
      RegistryType::Get().Add(name, __VA_ARGS__) && ::antiphon::internal::RecordRegistration(__FILE__, name)
