#include "base/archive.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>

#include "base/check.h"
#include "base/error.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBlock = 512;
using Block = std::array<char, kBlock>;

// A field of a header: where it begins, how long it is.
struct Field {
  size_t begin, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12},
    kSum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};
constexpr uint64_t kMostBytes = (uint64_t{1} << 33) - 1;  // as many octal digits as the size has
constexpr std::string_view kUstar("ustar\00000", 8);

std::string_view Text(const Block& header, Field field) {
  const std::string_view text(header.data() + field.begin, field.size);
  return text.substr(0, text.find('\0'));
}

void Put(Block& header, Field field, std::string_view text) {
  CHECK(text.size() <= field.size) << text;
  std::copy(text.begin(), text.end(), header.begin() + static_cast<ptrdiff_t>(field.begin));
}

// Folders that do not fit into the name's own field go into the prefix. False if there is no place to cut it.
bool PutName(Block& header, std::string_view name) {
  if (name.size() <= kName.size) {
    Put(header, kName, name);
    return true;
  }
  const size_t cut = name.find('/', name.size() - kName.size - 1);
  if (cut == std::string_view::npos || cut == 0 || cut > kPrefix.size || cut + 1 == name.size()) return false;
  Put(header, kPrefix, name.substr(0, cut));
  Put(header, kName, name.substr(cut + 1));
  return true;
}

// Octal digits, filled up with zeros, and an end mark.
void PutNumber(Block& header, Field field, uint64_t value) {
  Put(header, field, fmt::format("{:0{}o}", value, field.size - 1));
}

std::optional<uint64_t> Number(const Block& header, Field field) {
  std::string_view text = Text(header, field);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The sum of a header's bytes, its own field counting as blanks.
uint64_t SumOf(Block header) {
  std::fill_n(header.begin() + kSum.begin, kSum.size, ' ');
  return std::accumulate(header.begin(), header.end(), uint64_t{0},
                         [](uint64_t sum, char c) { return sum + static_cast<unsigned char>(c); });
}

std::string NameOf(const Block& header) {
  const std::string prefix(Text(header, kPrefix));
  return (prefix.empty() ? "" : prefix + "/") + std::string(Text(header, kName));
}

uint64_t Padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

std::vector<ArchiveMember> MembersOf(std::span<const std::byte> bytes, const fs::path& archive) {
  std::vector<ArchiveMember> members;
  for (uint64_t at = 0; at + kBlock <= bytes.size();) {
    Block header;
    std::memcpy(header.data(), bytes.data() + at, kBlock);
    // The end is two blocks of zeros.
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == 0; })) return members;
    const auto size = Number(header, kSize);
    if (Text(header, kMagic) != "ustar" || !size || Number(header, kSum) != SumOf(header)) {
      Throw<InputError>("'{}' is no tar archive, or is damaged: no right header stands at byte {}", archive.string(),
                        at);
    }
    const char type = header[kType.begin];
    if (type != '0' && type != '\0' && type != '5') {
      Throw<InputError>("'{}' holds '{}', which is neither a file nor a folder; write it as plain ustar",
                        archive.string(), NameOf(header));
    }
    if (*size > bytes.size() - at - kBlock) break;
    if (type != '5') members.push_back({NameOf(header), at + kBlock, *size});
    at += kBlock + Padded(*size);
  }
  Throw<InputError>("'{}' is cut short: an archive has an end mark, and it has none within its {} bytes",
                    archive.string(), bytes.size());
}

}  // namespace

std::vector<ArchiveMember> ListArchive(const fs::path& archive) {
  return MembersOf(MappedFile(archive).bytes(), archive);
}

std::optional<PlaceInArchive> FindArchive(const fs::path& path) {
  // Almost always there is no archive, and one call says so.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 || errno != ENOTDIR) return std::nullopt;
  fs::path folder;
  for (auto part = path.begin(); part != path.end(); ++part) {
    folder /= *part;
    std::error_code none;
    const fs::file_status status = fs::status(folder, none);
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) return std::nullopt;
    fs::path name;
    for (++part; part != path.end(); ++part) name /= *part;
    if (name.empty()) return std::nullopt;
    return PlaceInArchive{folder, name.lexically_normal().generic_string()};
  }
  return std::nullopt;
}

std::optional<ArchiveMember> FindMember(const PlaceInArchive& place) {
  for (ArchiveMember& member : ListArchive(place.archive)) {
    if (member.name == place.name) return std::move(member);
  }
  return std::nullopt;
}

bool IsThere(const fs::path& path) {
  std::error_code none;
  if (fs::exists(path, none)) return true;
  const auto place = FindArchive(path);
  if (!place) return false;
  const std::vector<ArchiveMember> members = ListArchive(place->archive);
  return std::any_of(members.begin(), members.end(), [&](const ArchiveMember& member) {
    return member.name == place->name || member.name.starts_with(place->name + "/");
  });
}

void ArchiveWriter::Add(const std::string& name, std::span<const std::byte> bytes) {
  CHECK(!name.empty());
  Block header{};
  if (!PutName(header, name)) {
    Throw<InputError>(
        "'{}' cannot hold '{}': a name in a tar archive has at most {} bytes behind a '/' and {} before it, and this "
        "one has {}; give the file a shorter name",
        file_.path().string(), name, kName.size, kPrefix.size, name.size());
  }
  if (bytes.size() > kMostBytes) {
    Throw<InputError>("'{}' cannot hold '{}' of {} bytes: a file in a tar archive has at most {}",
                      file_.path().string(), name, bytes.size(), kMostBytes);
  }
  PutNumber(header, kMode, 0644);
  PutNumber(header, kUser, 0);
  PutNumber(header, kGroup, 0);
  PutNumber(header, kSize, bytes.size());
  PutNumber(header, kTime, 0);  // the same recogniser, the same bytes
  Put(header, kType, "0");
  Put(header, kMagic, kUstar);
  Put(header, kSum, fmt::format("{:06o}", SumOf(header)) + std::string("\0 ", 2));
  file_.stream().write(header.data(), kBlock);
  file_.stream().write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Block zeros{};
  file_.stream().write(zeros.data(), static_cast<std::streamsize>(Padded(bytes.size()) - bytes.size()));
  file_.CheckStream();
}

void ArchiveWriter::Commit() {
  const Block zeros{};
  for (int i = 0; i < 2; ++i) file_.stream().write(zeros.data(), kBlock);
  file_.Commit();
}

}  // namespace antiphon
