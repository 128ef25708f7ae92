#include "parallel/codec_speed.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/random.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

template <class Body>
double MiddleSeconds(int rounds, const Body& body) {
  std::vector<double> all;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(all.begin(), all.begin() + rounds / 2, all.end());
  return std::max(1e-12, all[static_cast<size_t>(rounds / 2)]);
}

}  // namespace

CodecMeasurement MeasureCodec(const std::string& codec_name, int64_t rows, int64_t cols, int rounds) {
  const auto codec = MakeCodec(Config::Parse("type = \"" + codec_name + "\"\n", "codec"));
  Matrix gradient(rows, cols);
  Rng rng(1);
  for (int64_t i = 0; i < gradient.size(); ++i) gradient.data()[i] = static_cast<float>(1e-3 * rng.Normal());
  std::vector<Matrix> planes;
  for (int k = 0; k < codec->num_planes(); ++k) {
    planes.emplace_back(rows, cols);
    planes.back().SetZero();
  }
  const std::vector<MatrixView> memory(planes.begin(), planes.end());
  Matrix decoded(rows, cols);
  Code code;
  const double encode = MiddleSeconds(rounds, [&] {
    code = Code();  // each message has memory of its own
    codec->Encode(gradient, memory, code);
  });
  const double decode = MiddleSeconds(rounds, [&] { codec->Decode(code, decoded); });
  const double bytes = static_cast<double>(gradient.size()) * sizeof(float);
  return {{1e-9 * bytes / encode, 1e-9 * bytes / decode}, static_cast<double>(code.size()) / bytes};
}

}  // namespace antiphon::parallel
