// What a call of the public interface says when it fails.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "antiphon/error.h"

namespace antiphon::testing {

/// The kind and text of what `call` throws; kInternal, "no error" if it throws nothing.
template <class Call>
std::pair<ErrorKind, std::string> ErrorOf(Call&& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return {KindOf(e), e.what()};
  }
  return {ErrorKind::kInternal, "no error"};
}
template <class Call>
std::string MessageOf(Call&& call) {
  return ErrorOf(call).second;
}

}  // namespace antiphon::testing
