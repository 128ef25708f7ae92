#include "hmm/phone_set.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/suggest.h"

namespace antiphon::hmm {
namespace {

constexpr std::string_view kSuffixes[] = {"_B", "_E", "_I", "_S"};

}  // namespace

PhoneSet::PhoneSet(std::vector<std::string> names, const std::vector<std::string>& silence, bool position_dependent)
    : position_dependent_(position_dependent) {
  const std::set<std::string> quiet(silence.begin(), silence.end());
  const std::set<std::string> sorted(names.begin(), names.end());
  names_.insert(names_.end(), quiet.begin(), quiet.end());
  for (const std::string& name : sorted) {
    if (quiet.contains(name)) continue;
    if (!position_dependent) {
      names_.push_back(name);
    } else {
      for (const std::string_view suffix : kSuffixes) names_.push_back(name + std::string(suffix));
    }
  }
  Index(silence);
}

PhoneSet PhoneSet::FromList(std::vector<std::string> names_by_id, const std::vector<std::string>& silence,
                            bool position_dependent) {
  PhoneSet set;
  set.position_dependent_ = position_dependent;
  set.names_.insert(set.names_.end(), names_by_id.begin(), names_by_id.end());
  set.Index(silence);
  return set;
}

void PhoneSet::Index(const std::vector<std::string>& silence) {
  silence_.assign(names_.size(), false);
  for (size_t id = 1; id < names_.size(); ++id) {
    if (names_[id].empty()) throw InputError("a phone has an empty name");
    if (!ids_.emplace(names_[id], static_cast<int32_t>(id)).second)
      Throw<InputError>("phone '{}' is listed twice", names_[id]);
  }
  for (const std::string& name : silence) silence_[static_cast<size_t>(Id(name))] = true;
}

const std::string& PhoneSet::Name(int32_t id) const {
  CHECK(id >= 1 && id <= num_phones()) << "phone id " << id << " of " << num_phones();
  return names_[static_cast<size_t>(id)];
}

int32_t PhoneSet::Find(std::string_view name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? 0 : it->second;
}

int32_t PhoneSet::Id(std::string_view name) const {
  const int32_t id = Find(name);
  if (id == 0) throw InputError(UnknownNameMessage("phone", name, Names()));
  return id;
}

bool PhoneSet::IsSilence(int32_t id) const {
  CHECK(id >= 0 && id <= num_phones()) << "phone id " << id;
  return silence_[static_cast<size_t>(id)];
}

std::string PhoneSet::PositionSuffix(int32_t id) const {
  const std::string& name = Name(id);
  if (!position_dependent_ || IsSilence(id) || name.size() < 3) return "";
  return name.substr(name.size() - 2);
}

std::string PhoneSet::BaseName(int32_t id) const {
  const std::string& name = Name(id);
  return name.substr(0, name.size() - PositionSuffix(id).size());
}

std::vector<std::vector<int32_t>> PhoneSet::BaseGroups() const {
  std::map<std::string, size_t> group_of;
  std::vector<std::vector<int32_t>> groups;
  for (int32_t id = 1; id <= num_phones(); ++id) {
    const auto [it, added] = group_of.emplace(BaseName(id), groups.size());
    if (added) groups.emplace_back();
    groups[it->second].push_back(id);
  }
  return groups;
}

std::vector<int32_t> PhoneSet::Pronounce(const std::vector<std::string>& phones) const {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < phones.size(); ++i) {
    int32_t id = Find(phones[i]);
    if (id == 0 && position_dependent_) {
      const bool first = i == 0;
      const bool last = i + 1 == phones.size();
      id = Find(phones[i] + (first && last ? "_S" : first ? "_B" : last ? "_E" : "_I"));
    }
    ids.push_back(id != 0 ? id : Id(phones[i]));
  }
  return ids;
}

std::vector<std::string> PhoneSet::SilenceNames() const {
  std::vector<std::string> names;
  for (int32_t id = 1; id <= num_phones(); ++id) {
    if (IsSilence(id)) names.push_back(Name(id));
  }
  return names;
}

}  // namespace antiphon::hmm
