// At which sampling rate features of a data directory are computed.
//
// Threads: computes on its own. Errors: InputError if no recording can be read.
#pragma once

#include "data/audio_source.h"
#include "data/data_dir.h"

namespace antiphon::data {

/// The lowest: nothing is invented by upsampling. The `usual` one: that of most of the speech, in whole kHz, so that
/// frames of whole milliseconds are whole samples (11025 Hz becomes 11000); beyond 16 kHz there is little to tell words
/// apart by.
int RateOfData(const DataDir& dir, const AudioSource& audio, bool usual, int num_threads);

}  // namespace antiphon::data
