// Names and their ids from 0, in the order in which they were added: letters, or phones.
//
// Threads: const methods may run together.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::g2p {

class Symbols {
 public:
  Symbols() = default;
  explicit Symbols(const std::vector<std::string>& names) {
    for (const std::string& name : names) Add(name);
  }
  int32_t Add(std::string_view name) {
    const auto it = ids_.find(name);
    if (it != ids_.end()) return it->second;
    names_.emplace_back(name);
    return ids_.emplace(name, static_cast<int32_t>(names_.size()) - 1).first->second;
  }
  /// −1 if it is not there.
  int32_t Find(std::string_view name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? -1 : it->second;
  }
  const std::vector<std::string>& names() const { return names_; }
  int32_t size() const { return static_cast<int32_t>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> ids_;
};

}  // namespace antiphon::g2p
