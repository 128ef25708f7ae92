// Archives of matrices, vectors and integer vectors, text and binary, compressed and gzipped, and their scripts: any
// bytes are read or refused with an Error. The first byte chooses the kind of value.
#include <cstdint>

#include "base/error.h"
#include "data/archive.h"
#include "fuzz_file.h"

namespace {

using antiphon::fuzz::FuzzFolder;

template <class T>
void ReadAll(const std::string& table) {
  try {
    antiphon::data::SequentialReader<T> reader(table);
    while (reader.Next()) reader.Where();
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
}

template <class T>
void ReadByScript(const std::string& script) {
  try {
    const antiphon::data::RandomAccessReader<T> reader(script);
    for (const std::string& key : reader.keys()) reader.Get(key);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 4 == 3) {
    const std::string scp = FuzzFolder::Write("x.scp", data + 1, size - 1);
    // A script may name any file; what it reads from there must not harm either. It stays in the folder: no absolute
    // paths.
    if (std::string_view(reinterpret_cast<const char*>(data), size).find('/') == std::string_view::npos) {
      ReadByScript<antiphon::Matrix>("scp:" + scp);
    }
    return 0;
  }
  const std::string ark = "ark:" + FuzzFolder::Write("x.ark", data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      ReadAll<antiphon::Matrix>(ark);
      break;
    case 1:
      ReadAll<std::vector<float>>(ark);
      break;
    default:
      ReadAll<std::vector<int32_t>>(ark);
  }
  return 0;
}
