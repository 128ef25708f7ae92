#include "data/archive.h"

#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/suggest.h"
#include "data/archive_value.h"
#include "data/byte_source.h"
#include "data/file_checksums.h"
#include "data/script.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Keeps the files used last mapped, so that a script of one file per utterance does not run out of maps.
class MapCache {
 public:
  std::shared_ptr<const MappedFile> Get(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    for (auto it = files_.begin(); it != files_.end(); ++it) {
      if ((*it)->path() != path) continue;
      files_.splice(files_.begin(), files_, it);
      return files_.front();
    }
    files_.push_front(std::make_shared<const MappedFile>(path));
    if (files_.size() > kMaxFiles) files_.pop_back();
    return files_.front();
  }

 private:
  static constexpr size_t kMaxFiles = 64;
  std::mutex mutex_;
  std::list<std::shared_ptr<const MappedFile>> files_;
};

template <class T>
void Slice(const ObjectReference& object, T& value) {
  if (!object.rows && !object.cols) return;
  if constexpr (requires { value.rows(); }) {
    const IndexRange rows = object.rows.value_or(IndexRange{0, value.rows() - 1});
    const IndexRange cols = object.cols.value_or(IndexRange{0, value.cols() - 1});
    if (rows.last >= value.rows() || cols.last >= value.cols()) {
      Throw<InputError>("the range [{}:{},{}:{}] does not lie within the matrix of {} x {} values", rows.first,
                        rows.last, cols.first, cols.last, value.rows(), value.cols());
    }
    using Element = std::remove_reference_t<decltype(value(0, 0))>;
    value = T(BasicMatrixView<const Element>(
        value.view().Rows(rows.first, rows.last - rows.first + 1).Cols(cols.first, cols.last - cols.first + 1)));
  } else {
    if (object.cols) Throw<InputError>("a vector has no columns to choose from");
    if (object.rows->last >= std::ssize(value)) {
      Throw<InputError>("the range [{}:{}] does not lie within the {} elements", object.rows->first, object.rows->last,
                        value.size());
    }
    value = T(value.begin() + object.rows->first, value.begin() + object.rows->last + 1);
  }
}

template <class T>
T ReadReferenced(const ObjectReference& object, MapCache& cache, const TableReadOptions& options) {
  T value;
  const std::shared_ptr<const MappedFile> file = cache.Get(object.path);
  if (IsGzip(file->bytes())) {
    if (object.offset.value_or(0) != 0) {
      Throw<InputError>("'{}' is compressed, so nothing can be found at byte {} of it; unpack it first",
                        object.path.string(), *object.offset);
    }
    value = ReadValue<T>(*OpenByteSource(object.path));
  } else {
    value = ReadValue<T>(*MakeMemorySource(file->bytes(), object.path.string(), object.offset.value_or(0)));
  }
  Slice(object, value);
  if (options.require_finite) RequireFinite(value);
  return value;
}

void CheckNewKey(std::unordered_set<std::string>& seen, const std::string& key) {
  if (!seen.insert(key).second) Throw<InputError>("key '{}' is there twice", key);
}

}  // namespace

std::optional<std::string> NextKey(ByteSource& in) {
  while (in.Peek() == ' ' || in.Peek() == '\n' || in.Peek() == '\r' || in.Peek() == '\t') in.Get();
  if (in.Peek() < 0) return std::nullopt;
  std::string key = in.Token();
  for (const char c : key) {
    if (static_cast<unsigned char>(c) < 0x20)
      in.Fail("expected a key, found a control character: this is no Kaldi archive");
  }
  if (key.empty()) in.Fail("expected a key, found a control character: this is no Kaldi archive");
  if (in.Peek() < 0) in.Fail(fmt::format("the file ends after key '{}': it was cut short", key));
  return key;
}

MatrixCoding MatrixCodingFromName(std::string_view name) {
  if (name == "plain") return MatrixCoding::kPlain;
  if (name == "columns8") return MatrixCoding::kColumns8;
  if (name == "global16") return MatrixCoding::kGlobal16;
  if (name == "global8") return MatrixCoding::kGlobal8;
  throw UsageError(UnknownNameMessage("matrix coding", name, {"plain", "columns8", "global16", "global8"}));
}

template <class T>
struct TableWriter<T>::Impl {
  Impl(const fs::path& ark, TableWriteOptions o) : options(o), gzip(ark.extension() == ".gz"), file(ark) {
    if (gzip) options.scp = false;
  }

  TableWriteOptions options;
  bool gzip;
  AtomicFile file;
  uint64_t offset = 0;
  std::string script;
  std::string buffer;
  std::unordered_set<std::string> seen;
  bool closed = false;
};

template <class T>
TableWriter<T>::TableWriter(const fs::path& ark, TableWriteOptions options)
    : impl_(std::make_unique<Impl>(ark, options)) {}
template <class T>
TableWriter<T>::TableWriter(TableWriter&&) noexcept = default;
template <class T>
TableWriter<T>& TableWriter<T>::operator=(TableWriter&&) noexcept = default;
template <class T>
TableWriter<T>::~TableWriter() = default;

template <class T>
void TableWriter<T>::Write(std::string_view key, const T& value) {
  Impl& w = *impl_;
  CHECK(!w.closed) << w.file.path().string();
  const auto context = [&] { return fmt::format("writing '{}', key '{}'", w.file.path().string(), key); };
  WithContext(
      [&] {
        if (key.empty()) Throw<InputError>("a key cannot be empty");
        for (const char c : key) {
          if (static_cast<unsigned char>(c) <= 0x20)
            Throw<InputError>("a key cannot hold blanks or control characters");
        }
        CheckNewKey(w.seen, std::string(key));
        w.buffer.assign(key);
        w.buffer += ' ';
        AppendValue(value, w.options.text, w.options.coding, w.buffer);
        if (w.options.scp) {
          w.script += fmt::format("{} {}:{}\n", key, w.file.path().string(), w.offset + key.size() + 1);
        }
        w.offset += w.buffer.size();
        if (w.gzip) w.buffer = Gzip(w.buffer, GzipEffort::kSmall);
        w.file.stream().write(w.buffer.data(), std::ssize(w.buffer));
        w.file.CheckStream();
      },
      context);
}

template <class T>
void TableWriter<T>::Close() {
  Impl& w = *impl_;
  CHECK(!w.closed) << w.file.path().string();
  fs::path scp = w.file.path();
  scp.replace_extension(".scp");
  // An old script must never point into the new archive, nor old checksums speak of it.
  std::error_code ignored;
  if (w.options.scp) fs::remove(scp, ignored);
  fs::remove(ChecksumFileOf(scp), ignored);
  w.file.Commit();
  w.closed = true;
  if (w.options.scp) WriteFileAtomically(scp, w.script);
  if (w.options.checksums) WriteTableChecksums(w.file.path(), w.options.scp);
}

template <class T>
struct SequentialReader<T>::Impl {
  Impl(std::string_view table, TableReadOptions o) : options(o), name(ParseTableName(table)) {
    if (name.script) {
      entries = ReadScript(name.path);
    } else {
      source = OpenByteSource(name.path);
    }
  }

  bool Next() { return name.script ? NextOfScript() : NextOfArchive(); }

  bool NextOfScript() {
    if (next == entries.size()) return false;
    const ScriptEntry& entry = entries[next++];
    key = entry.key;
    offset = entry.object.offset.value_or(0);
    WithContext([&] { value = ReadReferenced<T>(entry.object, cache, options); },
                [&] { return fmt::format("'{}', key '{}'", name.path.string(), key); });
    return true;
  }

  bool NextOfArchive() {
    std::optional<std::string> found = NextKey(*source);
    if (!found) return false;
    key = std::move(*found);
    offset = source->offset();
    const auto context = [&] { return fmt::format("'{}', key '{}', byte {}", name.path.string(), key, offset); };
    WithContext(
        [&] {
          CheckNewKey(seen, key);
          value = ReadValue<T>(*source);
          if (options.require_finite) RequireFinite(value);
        },
        context);
    return true;
  }

  TableReadOptions options;
  TableName name;
  std::vector<ScriptEntry> entries;
  size_t next = 0;
  MapCache cache;
  std::unique_ptr<ByteSource> source;
  std::unordered_set<std::string> seen;
  std::string key;
  uint64_t offset = 0;
  T value;
};

template <class T>
SequentialReader<T>::SequentialReader(std::string_view table, TableReadOptions options)
    : impl_(std::make_unique<Impl>(table, options)) {}
template <class T>
SequentialReader<T>::SequentialReader(SequentialReader&&) noexcept = default;
template <class T>
SequentialReader<T>::~SequentialReader() = default;
template <class T>
bool SequentialReader<T>::Next() {
  return impl_->Next();
}
template <class T>
const std::string& SequentialReader<T>::key() const {
  return impl_->key;
}
template <class T>
T& SequentialReader<T>::value() {
  return impl_->value;
}
template <class T>
std::string SequentialReader<T>::Where() const {
  return fmt::format("'{}', key '{}', byte {}", impl_->name.path.string(), impl_->key, impl_->offset);
}

template <class T>
struct RandomAccessReader<T>::Impl {
  Impl(std::string_view table, TableReadOptions o) : options(o), name(ParseTableName(table)) {
    if (name.script) {
      for (ScriptEntry& entry : ReadScript(name.path)) {
        Add(std::move(entry.key));
        objects.push_back(std::move(entry.object));
      }
    } else if (IsGzip(cache.Get(name.path)->bytes())) {
      SequentialReader<T> reader("ark:" + name.path.string(), options);
      while (reader.Next()) {
        Add(reader.key());
        values.push_back(std::move(reader.value()));
      }
    } else {
      IndexArchive();
    }
  }

  void Add(std::string key) {
    if (!index.emplace(key, keys.size()).second) {
      Throw<InputError>("'{}': key '{}' is there twice", name.path.string(), key);
    }
    keys.push_back(std::move(key));
  }

  void IndexArchive() {
    const std::unique_ptr<ByteSource> in = OpenByteSource(name.path);
    while (std::optional<std::string> key = NextKey(*in)) {
      Add(*key);
      objects.push_back({.path = name.path, .offset = in->offset(), .rows = {}, .cols = {}});
      WithContext(
          [&] { SkipValue<T>(*in); },
          [&] { return fmt::format("'{}', key '{}', byte {}", name.path.string(), *key, *objects.back().offset); });
    }
  }

  TableReadOptions options;
  TableName name;
  std::vector<std::string> keys;
  std::unordered_map<std::string, size_t> index;
  std::vector<ObjectReference> objects;  // by position in keys; empty if `values` holds everything
  std::vector<T> values;
  MapCache cache;
};

template <class T>
RandomAccessReader<T>::RandomAccessReader(std::string_view table, TableReadOptions options)
    : impl_(std::make_unique<Impl>(table, options)) {}
template <class T>
RandomAccessReader<T>::RandomAccessReader(RandomAccessReader&&) noexcept = default;
template <class T>
RandomAccessReader<T>& RandomAccessReader<T>::operator=(RandomAccessReader&&) noexcept = default;
template <class T>
RandomAccessReader<T>::~RandomAccessReader() = default;

template <class T>
bool RandomAccessReader<T>::Has(std::string_view key) const {
  return impl_->index.count(std::string(key)) > 0;
}

template <class T>
T RandomAccessReader<T>::Get(std::string_view key) const {
  const auto it = impl_->index.find(std::string(key));
  if (it == impl_->index.end()) Throw<InputError>("'{}' has no key '{}'", impl_->name.path.string(), key);
  if (!impl_->values.empty()) return impl_->values[it->second];
  return WithContext([&] { return ReadReferenced<T>(impl_->objects[it->second], impl_->cache, impl_->options); },
                     [&] { return fmt::format("'{}', key '{}'", impl_->name.path.string(), key); });
}

template <class T>
const std::vector<std::string>& RandomAccessReader<T>::keys() const {
  return impl_->keys;
}

template <class T>
T ReadObject(std::string_view reference, TableReadOptions options) {
  MapCache cache;
  return ReadReferenced<T>(ParseObjectReference(reference), cache, options);
}

template <class T>
void WriteObject(const fs::path& path, const T& value, bool text) {
  std::string bytes;
  AppendValue(value, text, MatrixCoding::kPlain, bytes);
  WriteFileAtomically(path, bytes);
}

#define ANTIPHON_INSTANTIATE(T)                                 \
  template class TableWriter<T>;                                \
  template class SequentialReader<T>;                           \
  template class RandomAccessReader<T>;                         \
  template T ReadObject<T>(std::string_view, TableReadOptions); \
  template void WriteObject<T>(const fs::path&, const T&, bool);
ANTIPHON_INSTANTIATE(Matrix)
ANTIPHON_INSTANTIATE(DoubleMatrix)
ANTIPHON_INSTANTIATE(std::vector<float>)
ANTIPHON_INSTANTIATE(std::vector<double>)
ANTIPHON_INSTANTIATE(std::vector<int32_t>)
#undef ANTIPHON_INSTANTIATE

}  // namespace antiphon::data
