// Utterances of a store in the order of their ids, fast for millions of them.
#pragma once

#include <vector>

#include "data/frame_store.h"

namespace antiphon::data::internal {

/// `utterances` are places in the store.
void SortById(const FrameStore& store, std::vector<size_t>& utterances);

}  // namespace antiphon::data::internal
