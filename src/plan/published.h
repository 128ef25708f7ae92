// Published scaling of parallel training, beside what the cost model says of the same runs.
//
// Each table states its constants. At most one of them per table is fitted, to one row; all other rows are predictions.
// Constants that the papers do not tell are assumed, and marked so. Source of the figures: Zhang et al., ICASSP 2013
// (asynchronous SGD); Chen, Eversole, Li, Yu, Seide, Interspeech 2012 (pipeline); Seide, Fu, Droppo, Li, Yu,
// Interspeech 2014 (1-bit SGD); Su, Chen, arXiv 2015 (averaging); Chen, Huo, ICASSP 2016 (BMUF).
#pragma once

#include <string>
#include <vector>

namespace antiphon::plan {

struct PublishedRow {
  std::string what;
  double published = 0;  // 0: no figure, only words
  double simulated = 0;
  bool fitted = false;
  std::string note{};
  /// (simulated − published) / published.
  double error() const { return published > 0 ? simulated / published - 1 : 0; }
};

struct PublishedTable {
  std::string title;
  std::string source;
  std::string unit;
  std::vector<std::string> constants;
  std::string fitted;  // "nothing", or the constant, its value, and the row
  std::vector<PublishedRow> rows;
};

std::vector<PublishedTable> SimulatePublished();

}  // namespace antiphon::plan
