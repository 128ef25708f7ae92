#include "adapt/side_task.h"

#include "adapt/layer_groups.h"
#include "base/error.h"
#include "base/toml_text.h"

namespace antiphon::adapt {
namespace {

size_t PlaceOf(const std::vector<nn::LayerParts>& parts, const SideTaskOptions& options) {
  std::vector<std::string> only;
  if (!options.after.empty()) only.push_back(options.after);
  const std::vector<size_t> places = HiddenOutputs(parts, only, "after");
  return places[(places.size() - 1) / 2];
}

}  // namespace

std::string SideTaskPlace(const nn::Network& network, const SideTaskOptions& options) {
  const std::vector<nn::LayerParts> parts = nn::TakeApart(network);
  return parts[PlaceOf(parts, options)].name;
}

nn::Network InsertSideTask(const nn::Network& network, const SideTaskOptions& options, int classes, uint64_t seed) {
  std::vector<nn::LayerParts> parts = nn::TakeApart(network);
  const size_t place = PlaceOf(parts, options);
  const std::string toml = fmt::format(
      "[[layer]]\ntype = 'side-task'\nname = {}\ntask = {}\nclasses = {}\nweight = {}\nhidden-dim = {}\n"
      "adversarial = {}\nmost = {}\ngamma = {}\n",
      TomlString(nn::FreeName(parts, "side-task")), TomlString(options.task), classes, options.weight,
      options.hidden_dim, options.adversarial, options.most, options.gamma);
  const nn::Network head(Config::Parse(toml, "side task"), network.layer(place).out_dim(), 0, seed);
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1, nn::TakeApart(head).front());
  return nn::PutTogether(parts, network.in_dim());
}

}  // namespace antiphon::adapt
