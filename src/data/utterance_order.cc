#include "data/utterance_order.h"

#include <algorithm>
#include <string_view>

namespace antiphon::data::internal {
namespace {

// The bytes from `first` on, so that numbers are in the order of texts that are equal up to there.
uint64_t BytesFrom(std::string_view id, size_t first) {
  uint64_t key = 0;
  for (size_t i = first; i < first + sizeof key; ++i) {
    key = key << 8 | (i < id.size() ? static_cast<unsigned char>(id[i]) : 0);
  }
  return key;
}

}  // namespace

void SortById(const FrameStore& store, std::vector<size_t>& utterances) {
  const auto id = [&](size_t u) -> std::string_view { return store.utterances()[u].utt_id; };
  const auto by_id = [&](size_t a, size_t b) { return id(a) < id(b); };
  if (std::is_sorted(utterances.begin(), utterances.end(), by_id)) return;
  size_t same = id(utterances.front()).size();
  for (const size_t u : utterances) {
    const std::string_view first = id(utterances.front()), other = id(u);
    const auto end =
        std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(same), other.begin(), other.end());
    same = static_cast<size_t>(end.first - first.begin());
  }
  // Comparisons that need not look at the ids, which lie scattered in memory.
  struct Entry {
    uint64_t key;
    size_t utterance;
  };
  std::vector<Entry> entries;
  entries.reserve(utterances.size());
  for (const size_t u : utterances) entries.push_back({BytesFrom(id(u), same), u});
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : by_id(a.utterance, b.utterance);
  });
  for (size_t i = 0; i < entries.size(); ++i) utterances[i] = entries[i].utterance;
}

}  // namespace antiphon::data::internal
