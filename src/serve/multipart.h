// A form of several parts (multipart/form-data) as it comes in, in pieces of any size.
//
// What is held does not grow with a part's length: its bytes go to the sink as they come. Names and headers are
// limited, so that nothing is allocated because a header says so.
//
// Threads: one per object. Errors: InputError saying what was expected; the object is of no use afterwards.
// Source: RFC 7578, RFC 2046 section 5.1.
#pragma once

#include <string>
#include <string_view>

namespace antiphon::serve {

/// What a part's headers say.
struct FormPart {
  std::string name;
  std::string filename;  // as the client says; never a path to open
  bool is_file = false;  // a filename was given, even an empty one
};

class FormSink {
 public:
  virtual ~FormSink() = default;
  virtual void Begin(const FormPart& part) = 0;
  virtual void Data(std::string_view bytes) = 0;
  virtual void End() = 0;
};

class MultipartParser {
 public:
  static constexpr size_t kMaxHeaderBytes = 8192;
  static constexpr int kMaxParts = 100;

  /// `sink` must outlive it.
  MultipartParser(std::string_view boundary, FormSink& sink);

  void Feed(std::string_view bytes);
  /// InputError if the form is not whole.
  void Finish() const;

  /// Of a Content-Type header; InputError if that is no multipart/form-data.
  static std::string BoundaryOf(std::string_view content_type);

 private:
  enum class State { kPreamble, kDelimiter, kHeaders, kBody, kDone };
  // Each does what it can with the bytes that are there; false: more are needed.
  bool Preamble();
  bool Delimiter();
  bool Headers();
  bool Body();
  bool Advance();

  std::string delimiter_;  // CRLF, two dashes and the boundary
  FormSink& sink_;
  State state_ = State::kPreamble;
  std::string bytes_;  // not used yet
  int parts_ = 0;
};

/// The value of a parameter of a header ("form-data; name=\"file\""), quoted or not; `found` tells an empty one from
/// none.
std::string HeaderParameter(std::string_view header, std::string_view name, bool* found = nullptr);

}  // namespace antiphon::serve
