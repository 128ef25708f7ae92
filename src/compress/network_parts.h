// The parts of networks (nn/network_parts.h), as compression methods call them.
#pragma once

#include "nn/network_parts.h"

namespace antiphon::compress {

using nn::BiasOf;
using nn::ChooseLayers;
using nn::IsDense;
using nn::LayerChoice;
using nn::LayerParts;
using nn::MakeLayer;
using nn::NetworkSize;
using nn::PutTogether;
using nn::SizeOf;
using nn::TakeApart;

}  // namespace antiphon::compress
