#include "decode/graph/const_fst.h"

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace antiphon::decode {
namespace {

constexpr int32_t kMagic = 2125659606;
constexpr int32_t kAlignedVersion = 1;
constexpr size_t kAlignment = 16;
constexpr uint32_t kHasSymbols = 0x3;
constexpr size_t kLongestName = 64;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  template <class T>
  T Value() {
    T value;
    std::memcpy(&value, Take(sizeof value, 1).data(), sizeof value);
    return value;
  }
  std::string Name() {
    const auto size = Value<int32_t>();
    if (size < 0 || static_cast<size_t>(size) > kLongestName) throw InputError("its header is none of OpenFst's");
    const auto bytes = Take(static_cast<size_t>(size), 1);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class T>
  std::span<const T> Array(int64_t count, std::string_view what) {
    position_ = (position_ + kAlignment - 1) / kAlignment * kAlignment;
    const size_t left = position_ < file_.size() ? file_.size() - position_ : 0;
    if (count < 0 || static_cast<uint64_t>(count) > left / sizeof(T)) {
      Throw<InputError>("its header promises {} {} of {} bytes each, and {} bytes are left for them", count, what,
                        sizeof(T), left);
    }
    const auto bytes = Take(static_cast<size_t>(count), sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<size_t>(count)};
  }
  size_t left() const { return file_.size() - position_; }

 private:
  std::span<const std::byte> Take(size_t count, size_t each) {
    if (position_ > file_.size() || count > (file_.size() - position_) / each) {
      Throw<InputError>("it ends after {} bytes, within its header", file_.size());
    }
    const auto bytes = file_.subspan(position_, count * each);
    position_ += bytes.size();
    return bytes;
  }
  std::span<const std::byte> file_;
  size_t position_ = 0;
};

}  // namespace

ConstFst ParseConstFst(std::span<const std::byte> file) {
  Reader reader(file);
  if (reader.Value<int32_t>() != kMagic) throw InputError("it is no OpenFst file");
  const std::string type = reader.Name(), arc_type = reader.Name();
  const auto version = reader.Value<int32_t>();
  const auto flags = reader.Value<uint32_t>();
  if (type != "const" || arc_type != "standard" || version != kAlignedVersion || (flags & kHasSymbols) != 0) {
    Throw<InputError>(
        "an OpenFst file of type const, standard arcs, aligned (version {}), without symbols was expected; it has type "
        "'{}', '{}' arcs, version {}, flags {}",
        kAlignedVersion, type, arc_type, version, flags);
  }
  reader.Value<uint64_t>();  // properties, which nothing here relies on
  ConstFst fst;
  fst.start = reader.Value<int64_t>();
  const auto num_states = reader.Value<int64_t>(), num_arcs = reader.Value<int64_t>();
  if (num_states > std::numeric_limits<int32_t>::max()) Throw<InputError>("{} states are too many", num_states);
  if (num_arcs > std::numeric_limits<uint32_t>::max()) Throw<InputError>("{} arcs are too many", num_arcs);
  fst.states = reader.Array<ConstFst::State>(num_states, "states");
  fst.arcs = reader.Array<GraphArc>(num_arcs, "arcs");
  if (reader.left() != 0) Throw<InputError>("{} bytes follow its last arc", reader.left());
  uint64_t next = 0;
  for (size_t s = 0; s < fst.states.size(); ++s) {
    const ConstFst::State& state = fst.states[s];
    if (state.first_arc != next || state.num_input_epsilons > state.num_arcs) {
      Throw<InputError>("the arcs of state {} do not follow those before", s);
    }
    next += state.num_arcs;
  }
  if (next != fst.arcs.size()) Throw<InputError>("its states have {} arcs, its header {}", next, fst.arcs.size());
  return fst;
}

std::vector<GraphState> StatesOf(const ConstFst& fst) {
  std::vector<GraphState> states;
  states.reserve(fst.states.size());
  for (const ConstFst::State& s : fst.states) {
    states.push_back({s.first_arc, s.first_arc + s.num_input_epsilons, s.first_arc + s.num_arcs, s.final_cost});
  }
  return states;
}

}  // namespace antiphon::decode
