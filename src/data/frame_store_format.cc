#include "data/frame_store_format.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "data/byte_source.h"

namespace antiphon::data {

double EstimateStoreBytes(double frames, int feat_dim, const FrameStoreOptions& options) {
  constexpr int64_t kUtteranceFrames = 1200;
  internal::StoreHeader header;
  header.coding = options.coding;
  header.feat_dim = feat_dim;
  header.num_pdfs = 1;
  // Half of the alignment is lost on average.
  return frames / kUtteranceFrames *
         static_cast<double>(header.utterance_bytes(kUtteranceFrames) + internal::kAlignment / 2);
}

}  // namespace antiphon::data

namespace antiphon::data::internal {
namespace {

using Json = nlohmann::json;

// Larger numbers are no feature dimension or model that could exist, and would overflow sizes.
constexpr int kMaxDim = 1 << 20;
constexpr int kMaxPdfs = 1 << 28;

template <class T>
void AppendPlain(const T& value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendText(std::string_view text, std::string& out) {
  AppendPlain(static_cast<uint32_t>(text.size()), out);
  out += text;
}

std::string ReadPlainText(ByteSource& in) {
  const auto size = in.Read<uint32_t>();
  in.Require(size, "a name");
  std::string text(size, '\0');
  in.Read(text.data(), size);
  return text;
}

template <class T>
T Field(const Json& json, const char* name, T low, T high) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number_integer()) Throw<InputError>("'{}' is missing or no whole number", name);
  const bool fits =
      it->is_number_unsigned() ? it->get<uint64_t>() <= static_cast<uint64_t>(high) : it->get<int64_t>() >= 0;
  const T value = fits ? it->get<T>() : low - 1;
  if (!fits || value < low || value > high) Throw<InputError>("'{}' must be {} … {}", name, low, high);
  return value;
}

std::string TextField(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_string()) Throw<InputError>("'{}' is missing or no text", name);
  return it->get<std::string>();
}

uint64_t HexField(const Json& json, const char* name) {
  const std::string text = TextField(json, name);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || text != fmt::format("{:016x}", value)) Throw<InputError>("'{}' is no checksum", name);
  return value;
}

UtteranceRecord ReadRecord(ByteSource& in) {
  UtteranceRecord r;
  r.utterance.utt_id = ReadPlainText(in);
  r.utterance.speaker = in.Read<int32_t>();
  r.utterance.num_frames = in.Read<int32_t>();
  r.utterance.weight = in.Read<float>();
  r.place.shard = in.Read<uint32_t>();
  r.place.offset = in.Read<uint64_t>();
  r.place.checksum = in.Read<uint64_t>();
  return r;
}

void CheckRecord(const UtteranceRecord& r, const StoreHeader& header, size_t num_speakers, ByteSource& in) {
  const auto fail = [&](std::string_view what) { in.Fail(fmt::format("utterance '{}' {}", r.utterance.utt_id, what)); };
  if (r.utterance.num_frames < 1) fail("has no frames");
  if (r.utterance.speaker < 0 || static_cast<size_t>(r.utterance.speaker) >= num_speakers)
    fail("has an unknown speaker");
  const UtterancePlace& place = r.place;
  if (place.shard >= header.shard_bytes.size()) fail("lies in a shard that does not exist");
  const uint64_t size = header.utterance_bytes(r.utterance.num_frames);
  const uint64_t room = header.shard_bytes[place.shard];
  if (place.offset % kAlignment != 0 || place.offset > room || size > room - place.offset)
    fail("lies outside its shard");
}

}  // namespace

std::filesystem::path OldStore(const std::filesystem::path& folder) {
  return (folder.has_filename() ? folder : folder.parent_path()).string() + ".antiphon-old";
}

std::string ShardName(size_t shard) { return fmt::format("shard-{:05}.frames", shard); }

std::string HeaderToJson(const StoreHeader& h) {
  Json json = {{"format", kStoreFormat},
               {"version", kStoreVersion},
               {"coding", h.coding},
               {"feat_dim", h.feat_dim},
               {"num_pdfs", h.num_pdfs},
               {"num_frames", h.num_frames},
               {"num_utterances", h.num_utterances},
               {"description", h.description},
               {"shard_bytes", h.shard_bytes},
               {"index_bytes", h.index_bytes},
               {"index_checksum", fmt::format("{:016x}", h.index_checksum)}};
  if (!h.labelled) json["labelled"] = false;
  if (!h.live.empty()) json["live"] = h.live;
  json["checksum"] = fmt::format("{:016x}", Checksum(json.dump()));
  return json.dump(1) + "\n";
}

StoreHeader HeaderFromJson(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) Throw<InputError>("this is no JSON object; expected the description of a frame store");
  if (TextField(json, "format") != kStoreFormat) Throw<InputError>("this is no frame store");
  if (const int version = Field(json, "version", 0, 1 << 30); version != kStoreVersion) {
    Throw<InputError>("version {} of the format, expected {}; make the store again", version, kStoreVersion);
  }
  const uint64_t checksum = HexField(json, "checksum");
  json.erase("checksum");
  if (Checksum(json.dump(-1, ' ', false, Json::error_handler_t::replace)) != checksum) {
    Throw<InputError>("the checksum is wrong: the file was changed or damaged; make the store again");
  }
  StoreHeader h;
  h.coding = TextField(json, "coding");
  if (h.coding != "uint8" && h.coding != "uint16") Throw<InputError>("unknown coding '{}'", h.coding);
  h.feat_dim = Field(json, "feat_dim", 1, kMaxDim);
  h.num_pdfs = Field(json, "num_pdfs", 1, kMaxPdfs);
  h.num_frames = Field<int64_t>(json, "num_frames", 0, std::numeric_limits<int64_t>::max());
  h.num_utterances = Field<int64_t>(json, "num_utterances", 0, std::numeric_limits<int64_t>::max());
  h.description = TextField(json, "description");
  if (const auto labelled = json.find("labelled"); labelled != json.end()) {
    if (!labelled->is_boolean()) Throw<InputError>("'labelled' must be true or false");
    h.labelled = labelled->get<bool>();
  }
  if (const auto live = json.find("live"); live != json.end()) {
    if (!live->is_object() || live->empty()) Throw<InputError>("'live' must name files");
    for (const auto& [name, sum] : live->items()) h.live[name] = TextField(*live, name.c_str());
  }
  h.index_bytes = static_cast<uint64_t>(Field<int64_t>(json, "index_bytes", 0, std::numeric_limits<int64_t>::max()));
  h.index_checksum = HexField(json, "index_checksum");
  const auto shards = json.find("shard_bytes");
  if (shards == json.end() || !shards->is_array()) Throw<InputError>("'shard_bytes' is missing or no list");
  for (const Json& bytes : *shards) {
    if (!bytes.is_number_unsigned()) Throw<InputError>("'shard_bytes' must hold sizes");
    h.shard_bytes.push_back(bytes.get<uint64_t>());
  }
  return h;
}

std::string IndexToBytes(const std::vector<std::string>& speakers, const std::vector<UtteranceRecord>& records) {
  std::string out;
  AppendPlain(kIndexMagic, out);
  AppendPlain(static_cast<uint32_t>(speakers.size()), out);
  for (const std::string& name : speakers) AppendText(name, out);
  AppendPlain(static_cast<uint64_t>(records.size()), out);
  for (const UtteranceRecord& r : records) {
    AppendText(r.utterance.utt_id, out);
    AppendPlain(r.utterance.speaker, out);
    AppendPlain(r.utterance.num_frames, out);
    AppendPlain(r.utterance.weight, out);
    AppendPlain(r.place.shard, out);
    AppendPlain(r.place.offset, out);
    AppendPlain(r.place.checksum, out);
  }
  return out;
}

StoreIndex IndexFromBytes(std::string_view bytes, const std::string& name, const StoreHeader& header) {
  const auto in = MakeMemorySource(std::as_bytes(std::span(bytes)), name);
  if (bytes.size() != header.index_bytes) {
    in->Fail(
        fmt::format("{} bytes, expected {}: the file was cut short or replaced", bytes.size(), header.index_bytes));
  }
  if (Checksum(bytes) != header.index_checksum) in->Fail("the checksum is wrong: the file was changed or damaged");
  if (in->Read<uint64_t>() != kIndexMagic) in->Fail("this is no index of a frame store");
  StoreIndex index;
  const auto num_speakers = in->Read<uint32_t>();
  in->Require(uint64_t{4} * num_speakers, "the list of speakers");
  for (uint32_t i = 0; i < num_speakers; ++i) index.speakers.push_back(ReadPlainText(*in));
  const auto count = in->Read<uint64_t>();
  if (count != static_cast<uint64_t>(header.num_utterances))
    in->Fail("the number of utterances differs from store.json");
  in->Require(count, "the list of utterances");
  index.utterances.reserve(count);
  index.places.reserve(count);
  int64_t frames = 0;
  for (uint64_t i = 0; i < count; ++i) {
    UtteranceRecord r = ReadRecord(*in);
    CheckRecord(r, header, index.speakers.size(), *in);
    r.utterance.first_frame = frames;
    frames += r.utterance.num_frames;
    index.utterances.push_back(std::move(r.utterance));
    index.places.push_back(r.place);
  }
  if (frames != header.num_frames || in->Peek() >= 0) in->Fail("the index does not fit store.json");
  return index;
}

}  // namespace antiphon::data::internal
