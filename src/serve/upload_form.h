// A form that a client sends: short fields, and one file, whose bytes lie in memory that has no name in any folder.
//
// Threads: one per object. Errors: InputError for a second file and for fields that are too long; IoError if memory
// cannot be had.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "serve/multipart.h"

namespace antiphon::serve {

class UploadForm : public FormSink {
 public:
  static constexpr size_t kMaxFieldBytes = 65536;

  void Begin(const FormPart& part) override;
  void Data(std::string_view bytes) override;
  void End() override {}

  bool has_file() const { return file_.get() >= 0; }
  const std::string& filename() const { return filename_; }
  /// Gives the file away; read it from its first byte.
  FileDescriptor TakeFile();

  /// The last value of a field; `otherwise` if there is none.
  std::string Field(std::string_view name, std::string otherwise = "") const;
  /// All values of `name` and of `name[]`.
  std::vector<std::string> Fields(std::string_view name) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> fields_;
  std::string* field_ = nullptr;  // of the part that comes in; null: it is the file
  size_t field_bytes_ = 0;        // of all fields
  FileDescriptor file_;
  std::string filename_;
};

}  // namespace antiphon::serve
