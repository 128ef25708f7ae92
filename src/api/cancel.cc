#include "antiphon/cancel.h"

#include <utility>

#include "antiphon/export.h"
#include "api/cancel.h"
#include "api/internal.h"
#include "base/cancel.h"

namespace antiphon {

struct ANTIPHON_INTERNAL CancelWith::Impl {
  explicit Impl(CancelToken its_token) : token(std::move(its_token)), scope(CancelTokenAccess::Flag(token)) {}

  CancelToken token;
  CancelScope scope;
};

CancelWith::CancelWith(CancelToken token) : impl_(std::make_unique<Impl>(std::move(token))) {}
CancelWith::~CancelWith() = default;

}  // namespace antiphon
