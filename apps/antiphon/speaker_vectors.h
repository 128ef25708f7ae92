// Vectors of speakers behind the features of a frame store: how many numbers of a frame they are, in its description.
#pragma once

#include <string>

#include "data/frame_store.h"

namespace antiphon::app {

/// Description of a store whose frames end with vectors of `table`; "" for no table.
std::string DescribeSpeakerVectors(const std::string& table);
/// Numbers at the end of each frame that are such a vector's.
int SpeakerVectorDim(const data::FrameStore& store);

}  // namespace antiphon::app
