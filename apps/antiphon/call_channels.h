// Which channels of a recording are recognised each for itself: the parties of a call.
#pragma once

#include <string>
#include <vector>

namespace antiphon::app {

/// Of `count` channels, from 0; −1 alone: their mean. `wish`: "mean", "each", or "auto": each of two that differ, as of
/// a call. Errors: those of reading the file; Cancelled.
std::vector<int> ChannelsOf(const std::string& file, int count, const std::string& wish);

}  // namespace antiphon::app
