// The public CancelToken from the inside.
#pragma once

#include <atomic>

#include "antiphon/cancel.h"

namespace antiphon {

struct CancelTokenAccess {
  /// For CancelScope (base/cancel.h); as long as the token lives.
  static const std::atomic<bool>* Flag(const CancelToken& token) { return token.flag_.get(); }
};

}  // namespace antiphon
