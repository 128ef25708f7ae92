#include "decode/graph/const_fst_writer.h"

#include "hmm/graph/openfst.h"

namespace antiphon::decode {

// OpenFst by itself would go on after a failure, print a line and return false, without the system's reason.
void WriteConstFst(const fst::StdVectorFst& graph, AtomicFile& file) {
  try {
    file.stream().exceptions(std::ios::badbit | std::ios::failbit);
    fst::FstWriteOptions options(file.path().string());
    options.align = true;
    fst::StdConstFst(graph).Write(file.stream(), options);
    file.stream().flush();
  } catch (const std::ios_base::failure&) {
    // Whoever removes the file must not be thrown at.
    file.stream().exceptions(std::ios::goodbit);
    file.CheckStream();
    throw;
  }
  file.stream().exceptions(std::ios::goodbit);
}

}  // namespace antiphon::decode
