// The options of the components that a configuration chooses by name (layers, optimisers, strategies, codecs, methods
// of compression and adaptation), as each component's factory reads them.
//
//   for (const ComponentFamily& family : ComponentFamilies())
//     for (const std::string& name : family.names) DescribeComponent(family, name);
//
// Errors: UsageError with file:line, as the component gives it, for keys and values that it would refuse. What it would
// refuse later (a layer that does not fit its inputs, say) is no concern here.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace antiphon::train {

struct ComponentFamily {
  std::string name;                // "optimizer"
  std::string title;               // of its section in the reference
  std::string where;               // how a configuration chooses one, in Markdown
  std::vector<std::string> names;  // of its components
  /// Makes one from its table, for what reading it tells.
  std::function<void(const std::string& component, const Config& table)> make;
  /// TOML without which a component cannot be made.
  std::map<std::string, std::string> least = {};
};

const std::vector<ComponentFamily>& ComponentFamilies();
const ComponentFamily& FamilyNamed(std::string_view name);

/// The options of a component, with their defaults.
std::vector<OptionDescription> DescribeComponent(const ComponentFamily& family, const std::string& component);

/// The same, read from `table`. Throws what the component throws if `table` holds anything that it
/// does not know or take.
std::vector<OptionDescription> ReadComponent(const ComponentFamily& family, const std::string& component,
                                             const Config& table);

}  // namespace antiphon::train
