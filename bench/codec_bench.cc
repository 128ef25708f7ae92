// How fast gradients are encoded and decoded on one core: gigabytes of fp32 gradient per second for each codec.
//
// Usage: codec_bench [ROWS [COLS]]; prints one JSON object per line. Set OMP_NUM_THREADS=1 for the speed of a core.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

// Best of some rounds.
template <class Body>
double Seconds(Body body) {
  double best = 1e9;
  for (int round = 0; round < 15; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

void Run(int64_t rows, int64_t cols) {
  Matrix gradient(rows, cols);
  Rng rng(1);
  for (int64_t i = 0; i < gradient.size(); ++i) gradient.data()[i] = static_cast<float>(1e-3 * rng.Normal());
  const double gigabytes = static_cast<double>(gradient.size()) * sizeof(float) / 1e9;
  for (const std::string& name : CodecRegistry::Get().Names()) {
    const auto codec = MakeCodec(Config::Parse("type = \"" + name + "\"\n", "bench"));
    std::vector<Matrix> planes;
    for (int k = 0; k < codec->num_planes(); ++k) {
      planes.emplace_back(rows, cols);
      planes.back().SetZero();
    }
    const std::vector<MatrixView> memory(planes.begin(), planes.end());
    Matrix decoded(rows, cols);
    Code code;
    const double encode = Seconds([&] {
      code.clear();
      codec->Encode(gradient, memory, code);
    });
    const double decode = Seconds([&] { codec->Decode(code, decoded); });
    fmt::print(
        "{{\"codec\": \"{}\", \"rows\": {}, \"cols\": {}, \"encode_gb_per_s\": {:.2f}, \"decode_gb_per_s\": {:.2f}, "
        "\"share_of_bytes\": {:.4f}}}\n",
        name, rows, cols, gigabytes / encode, gigabytes / decode, static_cast<double>(code.size()) / (gigabytes * 1e9));
  }
}

}  // namespace
}  // namespace antiphon::parallel

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int64_t cols = argc > 2 ? std::atoll(argv[2]) : 2048;
  antiphon::parallel::Run(rows, cols);
  return 0;
}
