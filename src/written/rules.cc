#include "written/rules.h"

#include <algorithm>
#include <cstring>
#include <memory>
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
  if (rules.Start() == fst::kNoStateId) Throw<InputError>("'{}' holds no rules: it has no start", source);
  for (int s = 0; s < rules.NumStates(); ++s) {
    for (fst::ArcIterator<fst::StdVectorFst> it(rules, s); !it.Done(); it.Next()) {
      const fst::StdArc& arc = it.Value();
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

// "vector", "const" …; "" if the bytes are no transducer with standard arcs.
std::string TypeOf(const std::string& bytes) {
  int32_t magic = 0, length = 0;
  if (bytes.size() < 2 * sizeof(int32_t)) return "";
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  std::memcpy(&length, bytes.data() + sizeof(magic), sizeof(length));
  if (magic != kFstMagic || length < 0 || static_cast<size_t>(length) > bytes.size() - 2 * sizeof(int32_t)) return "";
  std::istringstream in(bytes);
  fst::FstHeader header;
  if (!header.Read(in, "rules") || header.ArcType() != fst::StdArc::Type()) return "";
  return header.FstType();
}

}  // namespace

Rules::Rules(const fst::StdVectorFst& rules, const std::string& source) {
  Check(rules, source);
  auto sorted = std::make_shared<fst::StdVectorFst>(rules);
  fst::ArcSort(sorted.get(), fst::ILabelCompare<fst::StdArc>());
  rules_ = std::move(sorted);
}

Rules Rules::Load(const std::filesystem::path& file) {
  const std::string bytes = ReadFile(file);
  const std::string type = TypeOf(bytes);
  std::istringstream in(bytes);
  const fst::FstReadOptions options(file.string());
  std::unique_ptr<fst::StdVectorFst> read;
  if (type == "vector") {
    read.reset(fst::StdVectorFst::Read(in, options));
  } else if (type == "const") {
    const std::unique_ptr<fst::StdConstFst> constant(fst::StdConstFst::Read(in, options));
    if (constant) read = std::make_unique<fst::StdVectorFst>(*constant);
  }
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
