// Options whose values are a few names: an enum from where they are parsed on.
//
//   enum class Shape { kRound, kSquare };
//   inline constexpr std::array kShapes = {EnumName{Shape::kRound, "round"}, EnumName{Shape::kSquare, "square"}};
//   struct CutOptions {
//     Shape shape = Shape::kRound;
//     template <class V> void Visit(V& v) { VisitEnum(v, "shape", shape, kShapes, "of the pieces"); }
//   };
//
// Threads: plain functions. Errors: as base/options.h; InternalError for a value that the names do not list.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "base/suggest.h"

namespace antiphon {

template <class Enum>
struct EnumName {
  Enum value;
  const char* name;
};
template <class Enum>
EnumName(Enum, const char*) -> EnumName<Enum>;

template <class Enum, size_t N>
std::string NameOf(Enum value, const std::array<EnumName<Enum>, N>& names) {
  for (const EnumName<Enum>& each : names) {
    if (each.value == value) return each.name;
  }
  throw InternalError("an option has a value without a name");
}

/// UsageError that lists the names for another one.
template <class Enum, size_t N>
Enum ParseEnum(std::string_view text, const std::array<EnumName<Enum>, N>& names) {
  std::vector<std::string> all;
  for (const EnumName<Enum>& each : names) {
    if (text == each.name) return each.value;
    all.emplace_back(each.name);
  }
  throw UsageError(UnknownNameMessage("value", text, all));
}

template <class Visitor, class Enum, size_t N>
void VisitEnum(Visitor& visitor, std::string_view key, Enum& value, const std::array<EnumName<Enum>, N>& names,
               std::string_view help) {
  OneOf one_of;
  for (const EnumName<Enum>& each : names) one_of.names.emplace_back(each.name);
  std::string text = NameOf(value, names);
  visitor(key, text, one_of, help);
  value = ParseEnum(text, names);
}

}  // namespace antiphon
