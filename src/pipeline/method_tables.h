// Methods that a command chooses from by name, each with its options in the table of that name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/error.h"

namespace antiphon::pipeline {

/// A command's tables: `others`, and one per registered method. For CommandInfo, which is asked for when all have
/// registered themselves.
template <class Registry>
std::vector<std::string> TablesOfMethods(std::vector<std::string> others) {
  for (std::string& name : Registry::Get().Names()) others.push_back(std::move(name));
  return others;
}

/// The table of the method; UsageError for a table of another one.
template <class Registry>
Config OptionsOfMethod(const std::string& method, const Config& config) {
  for (const std::string& name : Registry::Get().Names()) {
    if (name != method && config.Has(name)) {
      Throw<UsageError>("{}: options of '{}', but the method is '{}'", config.Where(name), name, method);
    }
  }
  return config.Table(method);
}

}  // namespace antiphon::pipeline
