// The English rules of written form, in the language of written/rule_source.h: numbers, ordinals, decimals, years,
// times, money, percent.
#pragma once

#include <string_view>

namespace antiphon::written {

std::string_view EnglishRules();

}  // namespace antiphon::written
