// What the benchmarks share: the network from its short description, and clocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/options.h"

namespace antiphon::app {

// Options that several benchmarks have.
inline constexpr const char* kLayersHelp = "sizes of input, hidden layers and output";
template <class V>
void VisitActivation(V& v, std::string& activation) {
  v("activation", activation, OneOf{{"sigmoid", "relu", "tanh"}}, "of the hidden layers");
}
template <class V>
void VisitScoringPrecision(V& v, std::string& precision) {
  v("precision", precision, OneOf{{"fp32", "bf16", "int8"}}, "of the matrix products");
}

/// "462,5x2048,10217" → {462, 2048, 2048, 2048, 2048, 2048, 10217}. UsageError for anything else.
std::vector<int> ParseLayers(const std::string& text);

/// Affine layers with `activation` between them, as [[layer]] tables.
Config NetworkOf(const std::vector<int>& dims, const std::string& activation);

/// Seconds since the call before (or since construction).
class StopWatch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The middle value; 0 if there is none.
double Median(std::vector<double> values);

}  // namespace antiphon::app
