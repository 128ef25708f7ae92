// So many of a kind at a time: streams, uploads, connections.
//
// Threads: safe together.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "serve/metrics.h"

namespace antiphon::serve {

/// Is given back when the last copy goes.
using Slot = std::shared_ptr<const void>;

class Slots {
 public:
  /// `gauge`: the metric that tells how many are taken. Both must outlive the slots.
  Slots(int most, Metrics& metrics, std::string gauge) : most_(most), metrics_(metrics), gauge_(std::move(gauge)) {
    metrics_.Set(gauge_, "", 0);
  }

  /// Null: all are taken.
  Slot Take() {
    if (taken_.fetch_add(1) >= most_) {
      --taken_;
      return nullptr;
    }
    metrics_.Add(gauge_, "", 1);
    return {this, [this](const void*) {
              --taken_;
              metrics_.Add(gauge_, "", -1);
            }};
  }
  int taken() const { return taken_; }
  int most() const { return most_; }

 private:
  const int most_;
  Metrics& metrics_;
  const std::string gauge_;
  std::atomic<int> taken_ = 0;
};

}  // namespace antiphon::serve
