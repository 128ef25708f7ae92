#include "pipeline/load_profile.h"

#include "base/error.h"

namespace antiphon {

infer::NnetScorerOptions AdaptableOptions() {
  infer::NnetScorerOptions options;
  options.adaptable = true;
  return options;
}

std::shared_ptr<const infer::BoundProfile> LoadBoundProfile(const std::filesystem::path& path,
                                                            const infer::NnetModel* network) {
  if (network == nullptr) throw UsageError("speakers' profiles are for networks, this model is a Gaussian mixture");
  return WithContext([&] { return network->Bind(nn::SpeakerProfile::Load(path)); },
                     [&] { return fmt::format("profile '{}'", path.string()); });
}

}  // namespace antiphon
