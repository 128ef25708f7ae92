// Who speaks in an audio file, by what its name or a table says.
//
// Threads: pure function.
#pragma once

#include <filesystem>
#include <string>

namespace antiphon::data {

/// `from`: as PrepareOptions::speaker_from has it; `column` is what a table says, perhaps nothing; `utterance` stands
/// in. `ending` goes behind a folder's or file's name: "-A" of a channel, as the parties of a call share both names.
std::string SpeakerOf(const std::filesystem::path& audio, const std::string& column, const std::string& utterance,
                      const std::string& from, const std::string& ending);

}  // namespace antiphon::data
