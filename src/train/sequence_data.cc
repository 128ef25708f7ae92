#include "train/sequence_data.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "data/archive.h"
#include "data/file_checksums.h"
#include "data/script.h"
#include "decode/graph/graph.h"
#include "decode/lattice/lattice_text.h"

namespace antiphon::train {

namespace fs = std::filesystem;

namespace {

fs::path Seal(const fs::path& folder) { return folder / "lattices.json"; }

nlohmann::json SealOf(const hmm::HmmModel& model) {
  return {{"model_structure", decode::ModelStructureChecksum(model)}};
}

const std::vector<std::string>& Sealed() {
  static const std::vector<std::string> names = {"lattices.ark", "lattices.scp", "ali.ark", "ali.scp"};
  return names;
}

// A cut at the end of a line leaves lattices that can be read, and teach something else.
void CheckFiles(const fs::path& folder, const nlohmann::json& seal) {
  const nlohmann::json sums = seal.value("checksums", nlohmann::json::object());
  for (const std::string& name : Sealed()) {
    if (data::IsAsWritten(folder, name, sums)) continue;
    Throw<InputError>(
        "'{}' is not what lattices.json says that antiphon lattices wrote: it was cut short or changed, or made by an "
        "earlier version of this program. Make the lattices anew",
        (folder / name).string());
  }
}

void CheckSeal(const fs::path& folder, const hmm::HmmModel& model) {
  if (!fs::exists(Seal(folder))) {
    Throw<InputError>("'{}' holds no lattices, or is not whole: make them with antiphon lattices", folder.string());
  }
  // A text that cannot be parsed is neither equal nor unequal to anything.
  const nlohmann::json seal = nlohmann::json::parse(ReadFile(Seal(folder)), nullptr, false);
  const char* const structure = "model_structure";
  if (!seal.is_object() || seal.value(structure, nlohmann::json()) != SealOf(model).at(structure)) {
    Throw<InputError>("the lattices in '{}' are those of a model with other phones, topology or tree", folder.string());
  }
  CheckFiles(folder, seal);
}

}  // namespace

struct SequenceDataWriter::Impl {
  Impl(const fs::path& out, const hmm::HmmModel& model)
      : folder(out),
        seal(SealOf(model)),
        lattices(out / "lattices.ark"),
        script(out / "lattices.scp"),
        references(out / "ali.ark") {}

  fs::path folder;
  nlohmann::json seal;
  AtomicFile lattices;
  AtomicFile script;
  data::TableWriter<std::vector<int32_t>> references;
};

SequenceDataWriter::SequenceDataWriter(const fs::path& folder, const hmm::HmmModel& model) {
  MakeFolder(folder);
  impl_ = std::make_unique<Impl>(folder, model);
}
SequenceDataWriter::~SequenceDataWriter() = default;

void SequenceDataWriter::Write(const std::string& utt_id, const SequenceEntry& entry) {
  // An offset stands behind the id and the character after it, as in all archives.
  const auto begin = static_cast<int64_t>(impl_->lattices.stream().tellp());
  impl_->lattices.stream() << decode::LatticeToText(utt_id, entry.lattice);
  impl_->script.stream() << fmt::format("{} lattices.ark:{}\n", utt_id, begin + std::ssize(utt_id) + 1);
  impl_->references.Write(utt_id, entry.reference);
  impl_->lattices.CheckStream();
}

void SequenceDataWriter::Close() {
  fs::remove(Seal(impl_->folder));
  impl_->references.Close();
  impl_->lattices.Commit();
  impl_->script.Commit();
  impl_->seal["checksums"] = data::ChecksumsOf(impl_->folder, Sealed());
  WriteFileAtomically(Seal(impl_->folder), impl_->seal.dump() + "\n");
}

struct SequenceData::Impl {
  explicit Impl(const fs::path& path)
      : folder(path), lattices(path / "lattices.ark"), references((path / "ali.scp").string()) {
    for (const data::ScriptEntry& entry : data::ReadScript(path / "lattices.scp")) {
      const uint64_t offset = entry.object.offset.value_or(0);
      if (offset >= lattices.bytes().size()) {
        Throw<InputError>("'{}' ends before the lattice of '{}', which lattices.scp has at byte {}: it is cut off",
                          lattices.path().string(), entry.key, offset);
      }
      offsets.emplace(entry.key, offset);
    }
  }

  // From its offset to the empty line.
  std::string_view Text(uint64_t offset) const {
    const std::string_view all(reinterpret_cast<const char*>(lattices.bytes().data()), lattices.bytes().size());
    const size_t end = all.find("\n\n", offset);
    return all.substr(offset, end == std::string_view::npos ? end : end + 1 - offset);
  }

  fs::path folder;
  MappedFile lattices;
  data::RandomAccessReader<std::vector<int32_t>> references;
  std::map<std::string, uint64_t, std::less<>> offsets;
};

SequenceData::SequenceData(const fs::path& folder, const hmm::HmmModel& model) {
  CheckSeal(folder, model);
  impl_ = std::make_unique<Impl>(folder);
}
SequenceData::~SequenceData() = default;
const fs::path& SequenceData::folder() const { return impl_->folder; }
bool SequenceData::Has(std::string_view utt_id) const { return impl_->offsets.contains(utt_id); }

std::vector<std::string> SequenceData::utt_ids() const {
  std::vector<std::string> ids;
  for (const auto& [utt_id, offset] : impl_->offsets) ids.push_back(utt_id);
  return ids;
}

SequenceEntry SequenceData::Get(std::string_view utt_id) const {
  const auto found = impl_->offsets.find(utt_id);
  if (found == impl_->offsets.end()) {
    Throw<InputError>("'{}' has no lattice of utterance '{}'", impl_->folder.string(), utt_id);
  }
  const std::string text = fmt::format("{}\n{}\n", utt_id, impl_->Text(found->second));
  auto lattices = decode::ParseLattices(text, impl_->lattices.path().string());
  if (lattices.size() != 1) {
    Throw<InputError>("'{}' holds no lattice at byte {}, where lattices.scp has that of '{}'",
                      impl_->lattices.path().string(), found->second, utt_id);
  }
  return {std::move(lattices[0].second), impl_->references.Get(utt_id)};
}

}  // namespace antiphon::train
