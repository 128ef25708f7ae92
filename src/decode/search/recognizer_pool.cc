#include "decode/search/recognizer_pool.h"

#include <utility>

namespace antiphon::decode {

std::shared_ptr<Recognizer> RecognizerPool::Borrow() {
  std::unique_ptr<Recognizer> recognizer;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      recognizer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!recognizer) recognizer = std::make_unique<Recognizer>(graph_, model_, options_, rescorer_, bias_);
  return {recognizer.release(), [this](Recognizer* r) {
            const std::lock_guard lock(mutex_);
            idle_.emplace_back(r);
          }};
}

}  // namespace antiphon::decode
