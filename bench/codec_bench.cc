// How fast gradients are encoded and decoded on one core: gigabytes of fp32 gradient per second for each codec.
//
// Usage: codec_bench [ROWS [COLS]]; prints one JSON object per line. Set OMP_NUM_THREADS=1 for the speed of a core.
#include <fmt/format.h>

#include <cstdlib>

#include "parallel/codec.h"
#include "parallel/codec_speed.h"

int main(int argc, char** argv) {
  namespace parallel = antiphon::parallel;
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int64_t cols = argc > 2 ? std::atoll(argv[2]) : 2048;
  constexpr int kRounds = 15;
  for (const std::string& name : parallel::CodecRegistry::Get().Names()) {
    const parallel::CodecMeasurement m = parallel::MeasureCodec(name, rows, cols, kRounds);
    fmt::print(
        "{{\"codec\": \"{}\", \"rows\": {}, \"cols\": {}, \"encode_gb_per_s\": {:.2f}, \"decode_gb_per_s\": {:.2f}, "
        "\"share_of_bytes\": {:.4f}}}\n",
        name, rows, cols, m.speed.encode_gb_s, m.speed.decode_gb_s, m.share_of_bytes);
  }
  return 0;
}
