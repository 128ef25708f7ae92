// The models that are served, by name, each with the profiles of speakers that fit it.
//
// A client names a model or a profile; a name is looked up here and nowhere else, so that no path of a client's is ever
// opened. Reload reads all files anew and puts the new models in place at once; who has got an old one keeps it.
//
// Threads: safe together; Reload from one thread at a time.
// Errors: those of loading, naming the model; UsageError for two models of one name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "antiphon/recognizer.h"
#include "antiphon/speaker_profile.h"
#include "antiphon/stream.h"
#include "base/error.h"

namespace antiphon::serve {

struct ServedModel {
  std::string name;
  Recognizer recognizer;
  std::map<std::string, SpeakerProfile, std::less<>> profiles;
  int64_t loaded_at = 0;  // seconds since 1970
};

/// What a client asked for by name.
struct ChosenModel {
  std::shared_ptr<const ServedModel> model;
  SpeakerProfile profile;
};

/// There is nothing of a name that a client gave.
class UnknownName : public UsageError {
 public:
  UnknownName(std::string field, const std::string& message) : UsageError(message), field_(std::move(field)) {}
  /// "model" or "profile".
  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

/// What makes streams of a model, which it keeps alive.
std::function<Stream(const CancelToken&)> StreamsOf(std::shared_ptr<const ServedModel> model, int sample_rate_hz,
                                                    StreamSettings settings);

class ModelSet {
 public:
  /// Makes a recogniser of a path.
  using Load = std::function<Recognizer(const std::string& path)>;

  /// `specs`: NAME=PATH, or PATH, whose name is the file's without its ending. `profiles`: folder of NAME.safetensors
  /// files; "": none. Loads all.
  ModelSet(const std::vector<std::string>& specs, std::string profiles, Load load);

  /// "": the first. Null: there is none of that name.
  std::shared_ptr<const ServedModel> Find(std::string_view name) const;
  /// `profile`: of the model; "": none. UnknownName says what there is.
  ChosenModel Choose(const std::string& model, const std::string& profile) const;
  std::vector<std::shared_ptr<const ServedModel>> All() const;
  /// "a, b", for messages.
  std::string Names() const;
  /// What was said of profiles that fit no model, and the like, when they were loaded last.
  std::vector<std::string> remarks() const;

  /// All or, with an error, nothing.
  void Reload();

 private:
  using Models = std::vector<std::shared_ptr<const ServedModel>>;
  Models LoadAll(std::vector<std::string>& remarks) const;

  std::vector<std::pair<std::string, std::string>> paths_;  // by name
  std::string profiles_;
  Load load_;
  mutable std::mutex mutex_;
  Models models_;                     // guarded by mutex_
  std::vector<std::string> remarks_;  // guarded by mutex_
};

}  // namespace antiphon::serve
