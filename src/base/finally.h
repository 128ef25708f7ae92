// Something that happens when a scope is left, however it is left.
#pragma once

#include <functional>
#include <utility>

namespace antiphon {

/// `f` must not throw.
class Finally {
 public:
  explicit Finally(std::function<void()> f) : f_(std::move(f)) {}
  Finally(const Finally&) = delete;
  ~Finally() { f_(); }

 private:
  std::function<void()> f_;
};

}  // namespace antiphon
