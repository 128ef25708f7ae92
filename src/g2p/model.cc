#include "g2p/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "g2p/entries.h"
#include "g2p/model_parts.h"
#include "g2p/unit_search.h"
#include "math/safetensors.h"

namespace antiphon::g2p {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "antiphon-g2p";
constexpr const char* kVersion = "1";

// "'ï' (U+00EF)", each once.
std::string Named(const std::vector<std::string>& letters) {
  std::vector<std::string> names;
  for (const std::string& letter : letters) {
    std::string name = fmt::format("'{}' (U+{:04X})", letter, static_cast<uint32_t>(FirstCodePoint(letter).value));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> ReadNames(const SafetensorsReader& reader, const char* key) {
  std::vector<std::string> names = Json::parse(reader.Metadata(key));
  if (Symbols(names).size() != std::ssize(names)) Throw<InputError>("its {} are not all different", key);
  return names;
}

std::vector<Unit> ReadUnits(const SafetensorsReader& reader, int32_t num_letters, int32_t num_phones) {
  std::vector<Unit> units;
  const auto check = [](const std::vector<int32_t>& ids, int32_t count) {
    return std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < count; });
  };
  std::vector<bool> alone(static_cast<size_t>(num_letters), false);
  for (const Json& json : Json::parse(reader.Metadata("units"))) {
    Unit unit{json.at(0), json.at(1)};
    if (unit.letters.empty() || !check(unit.letters, num_letters) || !check(unit.phones, num_phones)) {
      Throw<InputError>("its unit {} has letters or phones that are not there", units.size());
    }
    if (!units.empty() && !(units.back() < unit)) Throw<InputError>("its unit {} is out of order", units.size());
    if (unit.letters.size() == 1) alone[static_cast<size_t>(unit.letters[0])] = true;
    units.push_back(std::move(unit));
  }
  if (units.empty() || std::find(alone.begin(), alone.end(), false) != alone.end()) {
    throw InputError("it has letters without a unit");
  }
  return units;
}

Model::Parts ReadParts(const SafetensorsReader& reader) {
  if (reader.MetadataOr("format", "") != kFormat) {
    throw InputError("it is no grapheme-to-phoneme model; antiphon g2p train makes one from a lexicon");
  }
  if (const std::string& version = reader.Metadata("version"); version != kVersion) {
    Throw<InputError>("it is of version {}; this program reads version {}", version, kVersion);
  }
  if (!reader.has_checksum()) throw InputError("its checksum is missing");
  try {
    Model::Parts parts;
    parts.letters = Symbols(ReadNames(reader, "letters"));
    parts.phones = Symbols(ReadNames(reader, "phones"));
    parts.units = ReadUnits(reader, parts.letters.size(), parts.phones.size());
    const int order = Json::parse(reader.Metadata("order"));
    if (order < 1 || order > decode::NgramModel::kMaxOrder) Throw<InputError>("its n-grams have {} units", order);
    parts.ngram = UnitNgram::Read(reader, static_cast<int32_t>(parts.units.size()), order);
    parts.description = Json::parse(reader.Metadata("description")).dump();
    return parts;
  } catch (const nlohmann::json::exception& e) {
    Throw<InputError>("its description is not understood ({})", e.what());
  }
}

}  // namespace

struct Model::Impl {
  explicit Impl(Parts given) : parts(std::move(given)), search(parts.units, parts.ngram) {}

  // The letters of the word in the case in which all are known.
  std::vector<int32_t> Letters(std::string_view word) const {
    std::vector<std::string> unknown;
    const auto look_up = [&](const std::string& spelling) {
      std::vector<int32_t> ids;
      for (const std::string& letter : LettersOf(spelling)) {
        ids.push_back(parts.letters.Find(letter));
        if (ids.back() < 0) unknown.push_back(letter);
      }
      return ids;
    };
    std::vector<int32_t> ids = look_up(std::string(word));
    std::vector<std::string> missing = std::exchange(unknown, {});
    if (missing.empty()) return ids;
    for (const std::string& other : {LowerCase(word), UpperCase(word)}) {
      ids = look_up(other);
      const std::vector<std::string> of_other = std::exchange(unknown, {});
      if (of_other.empty()) return ids;
      if (of_other.size() < missing.size()) missing = of_other;
    }
    Throw<InputError>("no pronunciation for '{}': no word of the lexicon that the model learnt from has {}", word,
                      Named(missing));
  }

  Parts parts;
  UnitSearch search;
};

Model::Model(Parts parts) : impl_(std::make_shared<const Impl>(std::move(parts))) {}

std::vector<Guess> Model::Pronounce(std::string_view word, const PronounceOptions& options) const {
  if (word.empty()) throw InputError("no pronunciation for a word without letters");
  const std::vector<int32_t> letters = impl_->Letters(word);
  std::vector<Guess> guesses;
  for (const FoundPronunciation& found : impl_->search.Find(letters, options.nbest, options.beam)) {
    if (!guesses.empty() && found.probability < options.least_probability) break;
    Guess& guess = guesses.emplace_back();
    guess.probability = found.probability;
    for (const int32_t phone : found.phones) guess.phones.push_back(phones()[static_cast<size_t>(phone)]);
  }
  if (guesses.empty()) Throw<InputError>("no pronunciation for '{}': all its letters are silent", word);
  return guesses;
}

Model Model::Load(const std::filesystem::path& path) {
  return WithContext([&] { return Model(ReadParts(SafetensorsReader(path))); },
                     [&] { return fmt::format("grapheme-to-phoneme model '{}'", path.string()); });
}

void Model::Save(const std::filesystem::path& path) const {
  const Parts& parts = impl_->parts;
  SafetensorsWriter writer;
  parts.ngram.AddTo(writer);
  Json units = Json::array();
  for (const Unit& unit : parts.units) units.push_back({unit.letters, unit.phones});
  writer.SetMetadata("format", kFormat);
  writer.SetMetadata("version", kVersion);
  writer.SetMetadata("letters", Json(letters()).dump());
  writer.SetMetadata("phones", Json(phones()).dump());
  writer.SetMetadata("units", units.dump());
  writer.SetMetadata("order", std::to_string(parts.ngram.order()));
  writer.SetMetadata("description", parts.description);
  writer.Write(path);
}

const std::vector<std::string>& Model::letters() const { return impl_->parts.letters.names(); }
const std::vector<std::string>& Model::phones() const { return impl_->parts.phones.names(); }
const std::vector<Unit>& Model::units() const { return impl_->parts.units; }
const UnitNgram& Model::ngram() const { return impl_->parts.ngram; }
const std::string& Model::description() const { return impl_->parts.description; }

bool IsModelFile(const std::filesystem::path& path) { return path.extension() == ".g2p"; }

}  // namespace antiphon::g2p
