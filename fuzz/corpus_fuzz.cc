// Manifests of corpora: the first byte chooses the layout, the rest is the one file that says who says what.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/corpus/corpus_format.h"
#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::data::CorpusFormatRegistry;
  using antiphon::fuzz::FuzzFolder;
  if (size == 0) return 0;
  static const std::vector<std::string> layouts = CorpusFormatRegistry::Get().Names();
  const std::string& layout = layouts[data[0] % layouts.size()];
  std::string file = "manifest.json";
  std::filesystem::path place = FuzzFolder::Get() / file;
  if (layout == "mfa") {
    FuzzFolder::Write("a.wav", data, 1);
    file = "a.TextGrid";
    place = FuzzFolder::Get();
  }
  if (layout == "lhotse") {
    FuzzFolder::Write("recordings.jsonl", data + 1, size - 1);
    file = "supervisions.jsonl";
    place = FuzzFolder::Get();
  }
  FuzzFolder::Write(file, data + 1, size - 1);
  std::vector<antiphon::data::DataProblem> problems;
  try {
    CorpusFormatRegistry::Get().Create(layout)->Read(place, "", problems);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
