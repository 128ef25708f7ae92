#include "written/rules.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "hmm/graph/openfst.h"
#include "written/english_rules.h"
#include "written/rule_source.h"

namespace antiphon::written {
namespace {

constexpr int kMostByte = 255;
constexpr int32_t kFstMagic = 2125659606;  // of OpenFst files
constexpr size_t kLongestText = 4096;      // bytes that one phrase may be written as

void Check(const fst::StdVectorFst& rules, const std::string& source) {
  const int num_states = rules.NumStates();
  if (rules.Start() == fst::kNoStateId) Throw<InputError>("'{}' holds no rules: it has no start", source);
  if (rules.Start() < 0 || rules.Start() >= num_states) {
    Throw<InputError>("'{}' is damaged: it starts in state {} of {}", source, rules.Start(), num_states);
  }
  for (int s = 0; s < num_states; ++s) {
    for (fst::ArcIterator<fst::StdVectorFst> it(rules, s); !it.Done(); it.Next()) {
      const fst::StdArc& arc = it.Value();
      if (arc.nextstate < 0 || arc.nextstate >= num_states) {
        Throw<InputError>("'{}' is damaged: an arc leads to state {} of {}", source, arc.nextstate, num_states);
      }
      if (arc.ilabel < 0 || arc.ilabel > kMostByte || arc.olabel < 0 || arc.olabel > kMostByte) {
        Throw<InputError>(
            "'{}' has the label {}:{}; rules of written form read and write bytes, 1 … 255 (pynini's "
            "and Thrax's byte mode)",
            source, arc.ilabel, arc.olabel);
      }
      if (!(arc.weight.Value() >= 0.0F)) {
        Throw<InputError>("'{}' has an arc of cost {}; expected 0 or more", source, arc.weight.Value());
      }
    }
    if (!(rules.Final(s).Value() >= 0.0F)) Throw<InputError>("'{}' has a final cost below 0", source);
  }
}

// Of a file whose bytes may be anything: OpenFst believes the counts and positions in it.
class RuleFile {
 public:
  explicit RuleFile(const std::string& bytes) : bytes_(bytes) {}

  // Null if it is no transducer of the type vector or const with standard arcs, or damaged.
  std::unique_ptr<fst::StdVectorFst> Read(const std::string& name) const {
    const std::optional<fst::FstHeader> header = Header(name);
    if (!header || header->ArcType() != fst::StdArc::Type()) return nullptr;
    std::istringstream in(bytes_);
    const fst::FstReadOptions options(name);
    if (header->FstType() == "vector" && VectorFits(*header)) {
      return std::unique_ptr<fst::StdVectorFst>(fst::StdVectorFst::Read(in, options));
    }
    if (header->FstType() != "const" || !ConstFits(*header)) return nullptr;
    const std::unique_ptr<fst::StdConstFst> constant(fst::StdConstFst::Read(in, options));
    return constant ? std::make_unique<fst::StdVectorFst>(*constant) : nullptr;
  }

 private:
  // OpenFst reads texts of the length that the file claims, byte by byte.
  bool TextsFit() const {
    size_t at = sizeof(kFstMagic);
    for (int text = 0; text < 2; ++text) {  // types of transducer and arcs
      int32_t length = 0;
      if (bytes_.size() < at + sizeof(length)) return false;
      std::memcpy(&length, bytes_.data() + at, sizeof(length));
      at += sizeof(length);
      if (length < 0 || static_cast<size_t>(length) > bytes_.size() - at) return false;
      at += static_cast<size_t>(length);
    }
    return std::memcmp(bytes_.data(), &kFstMagic, sizeof(kFstMagic)) == 0;
  }

  std::optional<fst::FstHeader> Header(const std::string& name) const {
    if (!TextsFit()) return std::nullopt;
    std::istringstream in(bytes_);
    fst::FstHeader header;
    if (!header.Read(in, name)) return std::nullopt;
    const auto most = static_cast<int64_t>(bytes_.size());
    if (header.NumStates() > most || header.NumArcs() > most) return std::nullopt;
    if ((header.GetFlags() & (fst::FstHeader::HAS_ISYMBOLS | fst::FstHeader::HAS_OSYMBOLS)) != 0) {
      Throw<InputError>(
          "'{}' has tables of symbols, or is damaged; rules read and write bytes: leave the tables out (fstsymbols "
          "--clear_isymbols --clear_osymbols)",
          name);
    }
    return header;
  }

  size_t EndOfHeader() const {
    std::istringstream in(bytes_);
    fst::FstHeader header;
    header.Read(in, "rules");
    return static_cast<size_t>(in.tellg());
  }

  // Of the type vector: each state with its final weight, the number of its arcs, and these. Without a number of states
  // (below 0) there are as many as the file holds.
  bool VectorFits(const fst::FstHeader& header) const {
    constexpr size_t kArcBytes = 2 * sizeof(int32_t) + sizeof(float) + sizeof(int32_t);
    size_t at = EndOfHeader();
    for (int64_t s = 0; header.NumStates() < 0 ? at < bytes_.size() : s < header.NumStates(); ++s) {
      int64_t count = 0;
      at += sizeof(float);
      if (at + sizeof(count) > bytes_.size()) return false;
      std::memcpy(&count, bytes_.data() + at, sizeof(count));
      at += sizeof(count);
      if (count < 0 || static_cast<size_t>(count) > (bytes_.size() - at) / kArcBytes) return false;
      at += static_cast<size_t>(count) * kArcBytes;
    }
    return true;
  }

  // Of the type const: a table of states, each with the place and number of its arcs in the table behind it.
  bool ConstFits(const fst::FstHeader& header) const {
    struct State {
      float final_weight;
      uint32_t place, count, input_epsilons, output_epsilons;
    };
    if (header.NumStates() < 0 || header.NumArcs() < 0) return false;
    size_t at = EndOfHeader();
    constexpr size_t kAligned = fst::MappedFile::kArchAlignment;
    if ((header.GetFlags() & fst::FstHeader::IS_ALIGNED) != 0) at = (at + kAligned - 1) / kAligned * kAligned;
    for (int64_t s = 0; s < header.NumStates(); ++s, at += sizeof(State)) {
      State state;
      if (at + sizeof(State) > bytes_.size()) return false;
      std::memcpy(&state, bytes_.data() + at, sizeof(State));
      if (int64_t{state.place} + state.count > header.NumArcs()) return false;
    }
    return true;
  }

  const std::string& bytes_;
};

}  // namespace

Rules::Rules(const fst::StdVectorFst& rules, const std::string& source) {
  Check(rules, source);
  auto sorted = std::make_shared<fst::StdVectorFst>(rules);
  fst::ArcSort(sorted.get(), fst::ILabelCompare<fst::StdArc>());
  rules_ = std::move(sorted);
}

Rules Rules::Load(const std::filesystem::path& file) {
  const std::string bytes = ReadFile(file);
  const std::unique_ptr<fst::StdVectorFst> read = RuleFile(bytes).Read(file.string());
  if (!read) {
    Throw<InputError>(
        "'{}' is no OpenFst transducer (of the type vector or const, with standard arcs), or damaged; "
        "antiphon written rules makes one",
        file.string());
  }
  return Rules(*read, file.string());
}

Rules Rules::English() {
  fst::StdVectorFst rules;
  BuildRules(EnglishRules(), "English rules", &rules);
  return Rules(rules, "English rules");
}

void Rules::Save(const std::filesystem::path& file) const {
  std::ostringstream out;
  fst::FstWriteOptions options(file.string());
  if (!rules_->Write(out, options)) Throw<InputError>("'{}' could not be written", file.string());
  WriteFileAtomically(file, out.str());
}

// What is reached without reading anything; the cheapest way to each state.
void Rules::AddReachable(Places& places) const {
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [state, place] = places[i];
    for (fst::ArcIterator<fst::StdVectorFst> it(*rules_, state); !it.Done() && it.Value().ilabel == 0; it.Next()) {
      const fst::StdArc& arc = it.Value();
      Place next{place.cost + arc.weight.Value(), place.text};
      if (arc.olabel != 0) next.text += static_cast<char>(arc.olabel);
      if (next.text.size() > kLongestText) continue;
      const auto there = std::ranges::find(places, arc.nextstate, [](const auto& p) { return p.first; });
      if (there == places.end()) {
        places.emplace_back(arc.nextstate, std::move(next));
      } else if (next.cost < there->second.cost) {
        // Its followers are visited again.
        places.erase(there);
        places.emplace_back(arc.nextstate, std::move(next));
        i = static_cast<size_t>(-1);
        break;
      }
    }
  }
}

Rules::Places Rules::Follow(const Places& places, std::string_view bytes) const {
  Places at = places;
  for (const char byte : bytes) {
    Places next;
    const int label = static_cast<unsigned char>(byte);
    for (const auto& [state, place] : at) {
      for (fst::ArcIterator<fst::StdVectorFst> it(*rules_, state); !it.Done(); it.Next()) {
        const fst::StdArc& arc = it.Value();
        if (arc.ilabel > label) break;
        if (arc.ilabel != label) continue;
        Place reached{place.cost + arc.weight.Value(), place.text};
        if (arc.olabel != 0) reached.text += static_cast<char>(arc.olabel);
        const auto there = std::ranges::find(next, arc.nextstate, [](const auto& p) { return p.first; });
        if (there == next.end()) {
          next.emplace_back(arc.nextstate, std::move(reached));
        } else if (reached.cost < there->second.cost) {
          there->second = std::move(reached);
        }
      }
    }
    AddReachable(next);
    at = std::move(next);
    if (at.empty()) break;
  }
  return at;
}

Rules::Result Rules::Read(std::span<const std::string> words) const {
  Result result;
  Places at = {{rules_->Start(), {0.0F, ""}}};
  AddReachable(at);
  for (size_t w = 0; w < words.size() && !at.empty(); ++w) {
    at = Follow(at, words[w]);
    const Place* best = nullptr;
    float best_cost = 0.0F;
    for (const auto& [state, place] : at) {
      const float final_cost = rules_->Final(state).Value();
      if (final_cost == fst::StdArc::Weight::Zero().Value()) continue;
      if (best != nullptr && place.cost + final_cost >= best_cost) continue;
      best = &place;
      best_cost = place.cost + final_cost;
    }
    if (best != nullptr && !best->text.empty()) result.match = Match{static_cast<int>(w) + 1, best->text, best_cost};
    at = Follow(at, " ");
  }
  result.open = !at.empty();
  return result;
}

}  // namespace antiphon::written
