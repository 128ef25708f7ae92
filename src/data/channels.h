// Channels of a recording by name, as calls with two parties have them: A (left, 0), B (right, 1) …
//
// Numbers count from 0. Threads: pure functions. Errors: InputError for what names no channel.
#pragma once

#include <string>
#include <string_view>

namespace antiphon::data {

/// "A" for 0; numbers beyond "Z".
std::string ChannelName(int channel);

/// "A", "b", "left", "right", "0" …
int ParseChannel(std::string_view name);

}  // namespace antiphon::data
