// Configuration files: any text is either read or refused with a UsageError.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/error.h"
#include "base/options.h"

namespace {

struct SomeOptions {
  int count = 1;
  double rate = 0.5;
  bool flag = false;
  std::string name;
  std::vector<int> sizes;
  std::vector<double> rates;
  template <class V>
  void Visit(V& v) {
    v("count", count, antiphon::Range{0, 100}, "");
    v("rate", rate, antiphon::Range{0, 1}, "");
    v("flag", flag, "");
    v("name", name, "");
    v("sizes", sizes, antiphon::Range{1, 9}, "");
    v("rates", rates, "");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    antiphon::Config config =
        antiphon::Config::Parse(std::string_view(reinterpret_cast<const char*>(data), size), "input.toml");
    for (const std::string& key : config.Keys()) config.Where(key);
    for (const antiphon::Config& layer : config.Tables("layer")) layer.Text("type");
    antiphon::Config::Parse(config.ToToml(), "printed");
    config.SetFromFlag("a.b=1");
    antiphon::ReadOptions<SomeOptions>(config.Table("options"));
  } catch (const antiphon::UsageError&) {
  }
  return 0;
}
