// The phones of a model: names and ids, which of them are silence, and which variants belong to one base phone.
//
// Ids: phones from 1 in a fixed order (silence phones first, then by name); 0 is epsilon, or "no phone" as context.
// Position-dependent phones carry the suffix _B, _I, _E or _S (begin, inside, end of word, single); silence phones
// never do. Threads: const methods may run together. Errors: InputError naming the phone and the nearest known one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::hmm {

class PhoneSet {
 public:
  PhoneSet() = default;
  /// `names` may be unsorted and repeated; `silence` are those of them (or further ones) that model silence or noise.
  /// With position_dependent every other name gives four phones.
  PhoneSet(std::vector<std::string> names, const std::vector<std::string>& silence, bool position_dependent);
  /// The exact list of a saved model, in the order of its ids.
  static PhoneSet FromList(std::vector<std::string> names_by_id, const std::vector<std::string>& silence,
                           bool position_dependent);

  int num_phones() const { return static_cast<int>(names_.size()) - 1; }
  bool position_dependent() const { return position_dependent_; }
  /// 1 ≤ id ≤ num_phones().
  const std::string& Name(int32_t id) const;
  /// 0 if there is no such phone.
  int32_t Find(std::string_view name) const;
  int32_t Id(std::string_view name) const;
  bool IsSilence(int32_t id) const;

  /// The name without position suffix.
  std::string BaseName(int32_t id) const;
  /// Ids that share a base name, ascending; one group per base phone, ordered by its first id.
  std::vector<std::vector<int32_t>> BaseGroups() const;
  /// "_B" … "_S", or "" for silence phones and position-independent sets.
  std::string PositionSuffix(int32_t id) const;

  /// The ids of a pronunciation given as plain phone names, with the word-position variants chosen.
  std::vector<int32_t> Pronounce(const std::vector<std::string>& phones) const;

  std::vector<std::string> Names() const { return {names_.begin() + 1, names_.end()}; }
  std::vector<std::string> SilenceNames() const;

  bool operator==(const PhoneSet&) const = default;

 private:
  void Index(const std::vector<std::string>& silence);

  std::vector<std::string> names_ = {"<eps>"};
  std::vector<bool> silence_ = {false};
  bool position_dependent_ = false;
  std::map<std::string, int32_t, std::less<>> ids_;
};

}  // namespace antiphon::hmm
