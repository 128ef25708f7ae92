#include "feat/sound_source.h"

#include "base/error.h"
#include "feat/foreign_sound.h"
#include "feat/sound_file.h"

namespace antiphon::feat {

std::unique_ptr<SoundSource> OpenSound(const std::filesystem::path& path) {
  auto file = std::make_unique<SoundFile>(path);
  if (file->is_known()) return file;
  if (!file->may_be_foreign()) throw InputError(file->WhyNot());
  return std::make_unique<ForeignSound>(path, file->WhyNot());
}

std::unique_ptr<SoundSource> OpenSound(std::span<const std::byte> bytes, const std::string& name) {
  auto file = std::make_unique<SoundFile>(bytes, name);
  if (!file->is_known()) throw InputError(file->WhyNot());
  return file;
}

}  // namespace antiphon::feat
