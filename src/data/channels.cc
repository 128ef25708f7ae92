#include "data/channels.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace antiphon::data {
namespace {

constexpr int kLetters = 26;
constexpr int kMostSplitChannels = 1024;

}  // namespace

std::string ChannelName(int channel) {
  return channel < kLetters ? std::string(1, static_cast<char>('A' + channel)) : fmt::format("{}", channel);
}

int ParseChannel(std::string_view name) {
  const std::string folded = FoldCase(name);
  if (folded == "left") return 0;
  if (folded == "right") return 1;
  if (folded.size() == 1 && folded[0] >= 'a' && folded[0] <= 'z') return folded[0] - 'a';
  int number = -1;
  const char* const end = folded.data() + folded.size();
  const auto [last, error] = std::from_chars(folded.data(), end, number);
  if (error != std::errc() || last != end || number < 0 || number > kMostSplitChannels) {
    Throw<InputError>("'{}' is no channel; expected A, B …, left, right or a number from 0", name);
  }
  return number;
}

}  // namespace antiphon::data
