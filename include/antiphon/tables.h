// Kaldi tables: archives (ark) and scripts (scp) of matrices, vectors and lists of whole numbers, by key.
//
//   for (antiphon::TableReader table("feats.scp"); table.Next();) Use(table.key(), table.value().rows);
//   antiphon::TableWriter writer("feats.ark");
//   writer.WriteMatrix("utt1", frames, dim);
//   writer.Close();
//
// A table is named as Kaldi does ("ark:x.ark", "scp:x.scp") or by a bare path, where the ending .scp says script. Text,
// binary, gzip and Kaldi's compressed matrices are recognised; doubles become floats. Commands ("… |") are never run.
//
// Shapes: matrices row by row, one frame per row. Whole numbers are as they stand in the file: transition-ids from 1,
// pdf-ids from 0. Ownership: both are moved, not copied; what a reader refers to holds until the next Next.
// Threads: one per object. Errors: antiphon::Error (antiphon/error.h) naming file, key and byte or line: kInput for
// what is damaged and for values that are not finite, kUsage for settings and calls that cannot be, kIo.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

/// What a table holds of each key.
enum class TableKind { kMatrix, kVector, kIntegers };

struct TableValue {
  TableKind kind = TableKind::kMatrix;
  int64_t rows = 0;  // of a matrix
  int64_t cols = 0;
  std::vector<float> values;      // rows × cols, or a vector's
  std::vector<int32_t> integers;  // of kIntegers
};

/// Walks over a table in the order of its file, one value in memory at a time.
class ANTIPHON_API TableReader {
 public:
  /// The first value that is not empty says of which kind all are; where all are "[ ]" in text, they are vectors.
  explicit TableReader(const std::string& table);
  ~TableReader();
  TableReader(TableReader&&) noexcept;
  TableReader& operator=(TableReader&&) noexcept;

  /// kMatrix for a table without values.
  TableKind kind() const;
  /// Reads the next value; false at the end.
  bool Next();
  /// Of the present value, after a Next that said true.
  const std::string& key() const;
  /// May be moved from.
  TableValue& value();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TableSettings {
  bool text = false;
  bool script = true;            // an scp beside the ark; impossible for .gz
  std::string coding = "plain";  // of matrices; or Kaldi's compressed "columns8" (CM), "global16", "global8"
};

/// Writes "x.ark" and "x.scp" beside it, all values of one kind. Both appear, whole, at Close; without it nothing is
/// left. A name that ends in .gz is compressed. Keys may not be empty, have blanks, or come twice.
class ANTIPHON_API TableWriter {
 public:
  explicit TableWriter(const std::string& ark, const TableSettings& settings = {});
  ~TableWriter();
  TableWriter(TableWriter&&) noexcept;
  TableWriter& operator=(TableWriter&&) noexcept;

  /// `values`: a whole number of rows of `cols` values.
  void WriteMatrix(const std::string& key, std::span<const float> values, int64_t cols);
  void WriteVector(const std::string& key, std::span<const float> values);
  void WriteIntegers(const std::string& key, std::span<const int32_t> values);
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon
