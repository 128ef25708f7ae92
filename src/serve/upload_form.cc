#include "serve/upload_form.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/io_error.h"

namespace antiphon::serve {

void UploadForm::Begin(const FormPart& part) {
  if (part.name != "file") {
    field_ = &fields_[part.name].emplace_back();
    return;
  }
  if (has_file()) throw InputError("the form has two parts 'file': send one recording in a request");
  field_ = nullptr;
  filename_ = part.filename;
  file_ = FileDescriptor(::memfd_create("antiphon-upload", MFD_CLOEXEC));
  if (!has_file()) ThrowIo("make room in memory for", "a recording", errno);
}

void UploadForm::Data(std::string_view bytes) {
  if (field_ != nullptr) {
    field_bytes_ += bytes.size();
    if (field_bytes_ > kMaxFieldBytes) Throw<InputError>("the form's fields are longer than {} bytes", kMaxFieldBytes);
    *field_ += bytes;
    return;
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ThrowIo("keep in memory", "a recording", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

FileDescriptor UploadForm::TakeFile() {
  ::lseek(file_.get(), 0, SEEK_SET);
  return std::move(file_);
}

std::string UploadForm::Field(std::string_view name, std::string otherwise) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::move(otherwise) : found->second.back();
}

std::vector<std::string> UploadForm::Fields(std::string_view name) const {
  std::vector<std::string> all;
  for (const std::string& key : {std::string(name), std::string(name) + "[]"}) {
    const auto found = fields_.find(key);
    if (found != fields_.end()) all.insert(all.end(), found->second.begin(), found->second.end());
  }
  return all;
}

}  // namespace antiphon::serve
