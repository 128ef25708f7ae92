// Forms that clients send: any bytes are read or refused, and what is read does not depend on how they were cut.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "serve/multipart.h"

namespace {

struct Sink : antiphon::serve::FormSink {
  void Begin(const antiphon::serve::FormPart& part) override {
    all += "<" + part.name + "|" + part.filename + (part.is_file ? "!" : "") + ">";
  }
  void Data(std::string_view bytes) override { all += bytes; }
  void End() override { all += "</>"; }
  std::string all;
};

// What came of it; "refused" with what was read before.
std::string Read(std::string_view bytes, size_t piece) {
  Sink sink;
  try {
    antiphon::serve::MultipartParser parser("b", sink);
    while (!bytes.empty()) {
      parser.Feed(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    parser.Finish();
  } catch (const antiphon::InputError&) {
    return "refused";
  }
  return sink.all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = Read(bytes, size + 1);
  if (Read(bytes, 1) != whole || Read(bytes, 7) != whole) std::abort();
  try {
    if (antiphon::serve::MultipartParser::BoundaryOf(bytes).size() > 70) std::abort();
  } catch (const antiphon::InputError&) {
  }
  return 0;
}
