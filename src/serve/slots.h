// So many of a kind at a time: streams, uploads, connections.
//
//   Slots streams({.most = 100, .kind = "streams", .are_open = "streams are open"}, metrics);
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

/// Why nobody is let in now.
struct Refusal {
  std::string reason = {};   // a metric's label; "": come in
  std::string message = {};  // for the client
};

struct SlotsSettings {
  int most = 1;
  std::string kind;      // "streams": reason of refusals, and behind antiphon_ the metric that tells how many are taken
  std::string are_open;  // "streams are open": why nobody is let in, behind the number
};

class Slots {
 public:
  /// `metrics` must outlive the slots.
  Slots(SlotsSettings settings, Metrics& metrics)
      : settings_(std::move(settings)), metrics_(metrics), gauge_("antiphon_" + settings_.kind) {
    metrics_.Set(gauge_, "", 0);
  }

  /// Null: all are taken.
  Slot Take() {
    if (taken_.fetch_add(1) >= settings_.most) {
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
  bool all_taken() const { return taken_ >= settings_.most; }
  /// That they are, in words.
  Refusal AllTaken() const {
    return {settings_.kind, std::to_string(settings_.most) + " " + settings_.are_open + ": try again later"};
  }

 private:
  const SlotsSettings settings_;
  Metrics& metrics_;
  const std::string gauge_;
  std::atomic<int> taken_ = 0;
};

}  // namespace antiphon::serve
