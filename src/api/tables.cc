#include "antiphon/tables.h"

#include <optional>
#include <utility>
#include <variant>

#include "api/alive.h"
#include "api/internal.h"
#include "base/error.h"
#include "data/archive.h"
#include "data/byte_source.h"
#include "data/script.h"
#include "math/matrix.h"

namespace antiphon {
namespace {

constexpr char kReader[] = "TableReader";
constexpr char kWriter[] = "TableWriter";

using Floats = std::vector<float>;
using Integers = std::vector<int32_t>;

// What begins at the source's place; nullopt for "[ ]", which is an empty matrix or vector. Kaldi writes a matrix in
// text with a line break behind its bracket, a vector without.
std::optional<TableKind> KindOfText(data::ByteSource& in) {
  in.SkipSpaces();
  if (in.Peek() != '[') return TableKind::kIntegers;
  in.Get();
  in.SkipSpaces();
  if (in.Peek() != ']') return in.Peek() == '\n' || in.Peek() == '\r' ? TableKind::kMatrix : TableKind::kVector;
  in.Get();
  return std::nullopt;
}

std::optional<TableKind> KindOfValue(data::ByteSource& in) {
  if (in.Peek() != '\0') return KindOfText(in);
  in.Skip(2);  // "\0B"
  if (in.Peek() == 4) return TableKind::kIntegers;
  const std::string type = in.Token(/*limit=*/16);
  return type == "FV" || type == "DV" ? TableKind::kVector : TableKind::kMatrix;
}

// Of the first value that says it; of "[ ]" alone, a vector, without entries, a matrix.
TableKind KindOfTable(const std::string& table) {
  const data::TableName name = data::ParseTableName(table);
  TableKind otherwise = TableKind::kMatrix;
  if (!name.script) {
    const auto in = data::OpenByteSource(name.path);
    while (data::NextKey(*in)) {
      if (const auto kind = KindOfValue(*in)) return *kind;
      otherwise = TableKind::kVector;
    }
    return otherwise;
  }
  for (const data::ScriptEntry& entry : data::ReadScript(name.path)) {
    const auto in = data::OpenByteSource(entry.object.path);
    in->Skip(entry.object.offset.value_or(0));
    if (const auto kind = KindOfValue(*in)) return *kind;
    otherwise = TableKind::kVector;
  }
  return otherwise;
}

}  // namespace

struct ANTIPHON_INTERNAL TableReader::Impl {
  explicit Impl(const std::string& table) : kind(KindOfTable(table)) {
    if (kind == TableKind::kMatrix) reader.emplace<data::SequentialReader<Matrix>>(table);
    if (kind == TableKind::kVector) reader.emplace<data::SequentialReader<Floats>>(table);
    if (kind == TableKind::kIntegers) reader.emplace<data::SequentialReader<Integers>>(table);
  }

  void Take(Matrix& matrix) {
    value.rows = matrix.rows();
    value.cols = matrix.cols();
    value.values.assign(matrix.data(), matrix.data() + matrix.size());
  }
  void Take(Floats& floats) { value.values = std::move(floats); }
  void Take(Integers& integers) { value.integers = std::move(integers); }

  template <class Reader>
  bool Next(Reader& from) {
    if constexpr (std::is_same_v<Reader, std::monostate>) {
      return false;
    } else {
      if (!from.Next()) return false;
      key = from.key();
      value = TableValue();
      value.kind = kind;
      Take(from.value());
      return true;
    }
  }

  TableKind kind;
  std::variant<std::monostate, data::SequentialReader<Matrix>, data::SequentialReader<Floats>,
               data::SequentialReader<Integers>>
      reader;
  std::string key;
  TableValue value;
};

TableReader::TableReader(const std::string& table) : impl_(std::make_unique<Impl>(table)) {}
TableReader::~TableReader() = default;
TableReader::TableReader(TableReader&&) noexcept = default;
TableReader& TableReader::operator=(TableReader&&) noexcept = default;

TableKind TableReader::kind() const { return Alive(impl_, kReader).kind; }
bool TableReader::Next() {
  Impl& impl = Alive(impl_, kReader);
  return std::visit([&](auto& reader) { return impl.Next(reader); }, impl.reader);
}
const std::string& TableReader::key() const { return Alive(impl_, kReader).key; }
TableValue& TableReader::value() { return Alive(impl_, kReader).value; }

struct ANTIPHON_INTERNAL TableWriter::Impl {
  // The first value makes the file, whose kind it is.
  template <class T>
  data::TableWriter<T>& Of() {
    if (std::holds_alternative<std::monostate>(writer)) writer.emplace<data::TableWriter<T>>(ark, options);
    if (auto* same = std::get_if<data::TableWriter<T>>(&writer)) return *same;
    Throw<InputError>("'{}' holds values of another kind: a table has matrices, vectors or whole numbers alone", ark);
  }

  std::string ark;
  data::TableWriteOptions options;
  std::variant<std::monostate, data::TableWriter<Matrix>, data::TableWriter<Floats>, data::TableWriter<Integers>>
      writer;
};

TableWriter::TableWriter(const std::string& ark, const TableSettings& settings) : impl_(std::make_unique<Impl>()) {
  if (ark.ends_with(".scp")) {
    Throw<UsageError>("'{}' names a script: expected the path of an archive, beside which its script is put", ark);
  }
  impl_->ark = ark;
  impl_->options = {.text = settings.text,
                    .scp = settings.script && !ark.ends_with(".gz"),
                    .coding = data::MatrixCodingFromName(settings.coding)};
}
TableWriter::~TableWriter() = default;
TableWriter::TableWriter(TableWriter&&) noexcept = default;
TableWriter& TableWriter::operator=(TableWriter&&) noexcept = default;

void TableWriter::WriteMatrix(const std::string& key, std::span<const float> values, int64_t cols) {
  if (cols < 0 || (cols == 0 ? !values.empty() : std::ssize(values) % cols != 0)) {
    Throw<ShapeError>("'{}': {} values are no whole number of rows of {}", key, values.size(), cols);
  }
  const int64_t rows = cols == 0 ? 0 : std::ssize(values) / cols;
  Alive(impl_, kWriter).Of<Matrix>().Write(key, Matrix(ConstMatrixView(values.data(), rows, cols)));
}

void TableWriter::WriteVector(const std::string& key, std::span<const float> values) {
  Alive(impl_, kWriter).Of<Floats>().Write(key, Floats(values.begin(), values.end()));
}

void TableWriter::WriteIntegers(const std::string& key, std::span<const int32_t> values) {
  Alive(impl_, kWriter).Of<Integers>().Write(key, Integers(values.begin(), values.end()));
}

void TableWriter::Close() {
  Impl& impl = Alive(impl_, kWriter);
  std::visit(
      [&](auto& writer) {
        if constexpr (std::is_same_v<std::remove_reference_t<decltype(writer)>, std::monostate>) {
          impl.Of<Matrix>().Close();
        } else {
          writer.Close();
        }
      },
      impl.writer);
}

}  // namespace antiphon
