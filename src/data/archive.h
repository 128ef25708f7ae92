// Kaldi tables: archives (ark) of keyed values and scripts (scp) that point into them.
//
// Value types T: Matrix, DoubleMatrix, std::vector<float>, std::vector<double>, std::vector<int32_t>. Readers convert
// between float, double and the compressed matrix formats CM, CM2, CM3, and detect text or binary and gzip themselves.
//
// A table is named as Kaldi does ("ark:x.ark", "scp:x.scp", "ark:x.ark.gz") or by a bare path, where the ending .scp
// says script. A script's line is "KEY PATH[:OFFSET][ROWS[,COLUMNS]]", for example "utt1 feats.ark:1042[0:99,0:12]"
// (both ends inclusive). A relative PATH is looked up from the working directory, then from the script's folder, then
// by its mere name there, so that a moved folder still works. Commands ("… |") are never executed here.
//
// Shapes: matrices one frame per row. Threads: a RandomAccessReader may be read by many; the others belong to one.
// Errors: InputError naming file, key and byte offset (or line) for broken headers, sizes larger than the file, wrong
// types, duplicate keys, values that are not finite; IoError when the system refuses. Sizes are checked before memory
// is taken. Source: Kaldi's util/kaldi-holder-inl.h, matrix/kaldi-matrix.cc and matrix/compressed-matrix.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "math/matrix.h"

namespace antiphon::data {

/// How a float matrix is put down. The compressed formats lose precision: kColumns8 is Kaldi's default for features
/// (one byte, percentiles per column), kGlobal16 and kGlobal8 divide the whole matrix's range evenly.
enum class MatrixCoding { kPlain, kColumns8, kGlobal16, kGlobal8 };

/// "plain", "columns8" (CM), "global16" (CM2) or "global8" (CM3); UsageError otherwise.
MatrixCoding MatrixCodingFromName(std::string_view name);

struct TableWriteOptions {
  bool text = false;
  bool scp = true;                             // a script beside the archive; impossible for .gz
  MatrixCoding coding = MatrixCoding::kPlain;  // for matrices
  bool checksums = false;                      // beside the archive (data/file_checksums.h)
};

struct TableReadOptions {
  bool require_finite = true;  // NaN and infinities are errors
};

/// Writes "x.ark" and, if asked, "x.scp" beside it. Both appear, whole, at Close; without it nothing is left.
/// A name that ends in .gz is compressed. Write throws InputError for a key that is empty, has blanks or was there
/// already, and for what the coding cannot hold (not finite).
template <class T>
class TableWriter {
 public:
  explicit TableWriter(const std::filesystem::path& ark, TableWriteOptions options = {});
  TableWriter(TableWriter&&) noexcept;
  TableWriter& operator=(TableWriter&&) noexcept;
  ~TableWriter();

  void Write(std::string_view key, const T& value);
  /// Renames the finished files into place. Must be called; only then is the table there.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Walks over a table in the order of its file, one value in memory at a time.
///   for (SequentialReader<Matrix> reader("feats.scp"); reader.Next();) Use(reader.key(), reader.value());
template <class T>
class SequentialReader {
 public:
  explicit SequentialReader(std::string_view table, TableReadOptions options = {});
  SequentialReader(SequentialReader&&) noexcept;
  ~SequentialReader();

  /// Reads the next value; false at the end.
  bool Next();
  const std::string& key() const;
  /// May be moved from.
  T& value();
  /// "'x.ark', key 'utt1', byte 1042", for messages about the current value.
  std::string Where() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Values by key. A script is read at once, its values when asked; an archive without a script is indexed in one pass.
/// A compressed archive is held in memory whole. Const methods may run together.
template <class T>
class RandomAccessReader {
 public:
  explicit RandomAccessReader(std::string_view table, TableReadOptions options = {});
  RandomAccessReader(RandomAccessReader&&) noexcept;
  RandomAccessReader& operator=(RandomAccessReader&&) noexcept;
  ~RandomAccessReader();

  bool Has(std::string_view key) const;
  /// InputError naming the table if the key is not there.
  T Get(std::string_view key) const;
  /// In the order of the file.
  const std::vector<std::string>& keys() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Of an archive: passes blanks and line ends between values and takes the next key; nullopt at the end. InputError for
/// what is no key, or has nothing behind it.
std::optional<std::string> NextKey(ByteSource& in);

/// One value from "PATH[:OFFSET][ROWS[,COLUMNS]]", without a key in front: what Kaldi's single-object files hold.
template <class T>
T ReadObject(std::string_view reference, TableReadOptions options = {});

/// Writes one value without a key (binary unless text), whole or not at all.
template <class T>
void WriteObject(const std::filesystem::path& path, const T& value, bool text = false);

}  // namespace antiphon::data
