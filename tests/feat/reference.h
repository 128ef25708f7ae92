// Reference matrices of the shared folder, and synthetic signals.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "math/matrix.h"
#include "oracle.h"

namespace antiphon::feat {

/// Reads the one matrix of a Kaldi text archive.
inline Matrix ReadReference(const std::string& name) {
  std::ifstream file(SharedDir("reference").value() / (name + ".txt"));
  std::string token, text;
  file >> token >> token;
  std::vector<std::vector<float>> rows(1);
  while (std::getline(file, text)) {
    std::istringstream line(text);
    std::vector<float> row;
    while (line >> token && token != "]") row.push_back(std::stof(token));
    if (!row.empty()) rows.push_back(row);
  }
  rows.erase(rows.begin());
  Matrix out(static_cast<int64_t>(rows.size()), rows.empty() ? 0 : static_cast<int64_t>(rows[0].size()));
  for (size_t t = 0; t < rows.size(); ++t)
    std::copy(rows[t].begin(), rows[t].end(), out.Row(static_cast<int64_t>(t)).data());
  return out;
}

inline std::vector<float> Tone(int64_t n, double hz, double amplitude, int rate = 16000) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<float>(amplitude * std::sin(2 * std::numbers::pi * hz * static_cast<double>(i) / rate)));
  }
  return x;
}

inline std::vector<float> Chirp(int64_t n, double amplitude, int rate = 16000) {
  std::vector<float> x;
  const double seconds = static_cast<double>(n) / rate;
  for (int64_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / rate;
    x.push_back(
        static_cast<float>(amplitude * std::sin(2 * std::numbers::pi * (50 * t + 0.25 * rate * t * t / seconds))));
  }
  return x;
}

inline std::vector<float> WhiteNoise(int64_t n, double amplitude, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(amplitude * rng.Normal()));
  return x;
}

}  // namespace antiphon::feat
