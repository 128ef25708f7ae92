#include "serve/model_set.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace antiphon::serve {
namespace {

namespace fs = std::filesystem;

std::pair<std::string, std::string> NameAndPath(const std::string& spec) {
  const size_t equals = spec.find('=');
  if (equals != std::string::npos && spec.find('/') > equals) {
    return {spec.substr(0, equals), spec.substr(equals + 1)};
  }
  // A folder is given with a slash behind it, too.
  const std::string path = spec.substr(0, spec.find_last_not_of('/') + 1);
  return {fs::path(path).stem().string(), path};
}

// A profile that fits none of the models is worth a word; one that fits some of them is not.
void AddProfiles(const fs::path& folder, std::vector<std::shared_ptr<ServedModel>>& models,
                 std::vector<std::string>& remarks) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::string why;
    bool fits = false;
    for (const auto& model : models) {
      try {
        model->profiles.emplace(file.stem().string(), model->recognizer.LoadProfile(file.string()));
        fits = true;
      } catch (const Error& e) {
        why = e.what();
      }
    }
    if (!fits) remarks.push_back(fmt::format("profile '{}' fits no model: {}", file.stem().string(), why));
  }
}

}  // namespace

ModelSet::ModelSet(const std::vector<std::string>& specs, std::string profiles, Load load)
    : profiles_(std::move(profiles)), load_(std::move(load)) {
  if (specs.empty()) throw UsageError("no model is named: give what antiphon bundle made, or NAME=FILE for several");
  for (const std::string& spec : specs) {
    auto [name, path] = NameAndPath(spec);
    if (name.empty() || path.empty()) Throw<UsageError>("'{}' is neither NAME=FILE nor a file", spec);
    if (std::any_of(paths_.begin(), paths_.end(), [&, &n = name](const auto& other) { return other.first == n; })) {
      Throw<UsageError>("two models have the name '{}': name them apart by NAME=FILE", name);
    }
    paths_.emplace_back(std::move(name), std::move(path));
  }
  Reload();
}

ModelSet::Models ModelSet::LoadAll(std::vector<std::string>& remarks) const {
  std::vector<std::shared_ptr<ServedModel>> models;
  for (const auto& [name, path] : paths_) {
    models.push_back(WithContext(
        [&, n = name, p = path] {
          auto model = std::make_shared<ServedModel>(
              ServedModel{.name = n, .recognizer = load_(p), .profiles = {}, .loaded_at = std::time(nullptr)});
          // One that cannot recognise live would refuse every client.
          (void)model->recognizer.NewStream(model->recognizer.sample_rate_hz());
          return model;
        },
        [&, n = name] { return fmt::format("loading the model '{}'", n); }));
  }
  if (!profiles_.empty()) AddProfiles(profiles_, models, remarks);
  return {models.begin(), models.end()};
}

void ModelSet::Reload() {
  std::vector<std::string> remarks;
  Models loaded = LoadAll(remarks);
  const std::lock_guard lock(mutex_);
  models_.swap(loaded);
  remarks_.swap(remarks);
}

std::shared_ptr<const ServedModel> ModelSet::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (name.empty()) return models_.front();
  const auto found =
      std::find_if(models_.begin(), models_.end(), [&](const auto& model) { return model->name == name; });
  return found == models_.end() ? nullptr : *found;
}

ChosenModel ModelSet::Choose(const std::string& model, const std::string& profile) const {
  ChosenModel chosen{.model = Find(model), .profile = {}};
  if (!chosen.model) {
    throw UnknownName("model", fmt::format("no model is called '{}'; there are: {}", model, Names()));
  }
  if (profile.empty()) return chosen;
  const auto found = chosen.model->profiles.find(profile);
  if (found == chosen.model->profiles.end()) {
    throw UnknownName("profile", fmt::format("the model '{}' has no profile '{}'", chosen.model->name, profile));
  }
  chosen.profile = found->second;
  return chosen;
}

std::function<Stream(const CancelToken&)> StreamsOf(std::shared_ptr<const ServedModel> model, int sample_rate_hz,
                                                    StreamSettings settings) {
  return [model = std::move(model), sample_rate_hz, settings = std::move(settings)](const CancelToken& cancel) {
    StreamSettings its = settings;
    its.cancel = cancel;
    return model->recognizer.NewStream(sample_rate_hz, its);
  };
}

std::vector<std::shared_ptr<const ServedModel>> ModelSet::All() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

std::string ModelSet::Names() const {
  std::string names;
  for (const auto& model : All()) names += (names.empty() ? "" : ", ") + model->name;
  return names;
}

std::vector<std::string> ModelSet::remarks() const {
  const std::lock_guard lock(mutex_);
  return remarks_;
}

}  // namespace antiphon::serve
