#include "train/background_write.h"

#include <utility>

#include "base/check.h"

namespace antiphon::train {

void BackgroundWrite::Begin(std::function<void()> write) {
  CHECK(!under_way()) << "a write is under way";
  result_ = std::async(std::launch::async, std::move(write));
}

}  // namespace antiphon::train
