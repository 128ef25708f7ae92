// What a grapheme-to-phoneme model consists of. Internal to src/g2p.
#pragma once

#include <string>
#include <vector>

#include "g2p/model.h"
#include "g2p/symbols.h"
#include "g2p/unit_aligner.h"
#include "g2p/unit_ngram.h"

namespace antiphon::g2p {

struct Model::Parts {
  Symbols letters, phones;
  std::vector<Unit> units;
  UnitNgram ngram;
  std::string description;
};

}  // namespace antiphon::g2p
