#include "serve/multipart.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace antiphon::serve {
namespace {

struct Collected : FormSink {
  struct Part {
    FormPart head;
    std::string bytes;
    bool ended = false;
  };
  void Begin(const FormPart& part) override { parts.push_back({part, "", false}); }
  void Data(std::string_view bytes) override { parts.back().bytes += bytes; }
  void End() override { parts.back().ended = true; }
  std::vector<Part> parts;
};

const char* const kForm =
    "--b42\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndigits\r\n"
    "--b42\r\ncontent-disposition: form-data; filename=\"a \\\"b\\\"; c.wav\"; name=file\r\n"
    "Content-Type: audio/wav\r\n\r\nRI\r\n--b4\r\n\r\nFF\r\n"
    "--b42\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n--b42--\r\nepilogue";

std::vector<Collected::Part> Parse(const std::string& form, const std::vector<size_t>& cuts) {
  Collected sink;
  MultipartParser parser("b42", sink);
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parser.Feed(std::string_view(form).substr(begin, cut - begin));
    begin = cut;
  }
  parser.Feed(std::string_view(form).substr(begin));
  parser.Finish();
  return sink.parts;
}

TEST(Multipart, GivesThePartsHoweverTheBytesAreCut) {
  const std::string form = kForm;
  std::vector<std::vector<size_t>> ways = {{}};
  for (size_t cut = 1; cut < form.size(); ++cut) ways.push_back({cut});
  std::vector<size_t> each;
  for (size_t cut = 1; cut < form.size(); ++cut) each.push_back(cut);
  ways.push_back(each);
  for (const auto& cuts : ways) {
    const auto parts = Parse(form, cuts);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0].head.name, "model");
    EXPECT_FALSE(parts[0].head.is_file);
    EXPECT_EQ(parts[0].bytes, "digits");
    EXPECT_EQ(parts[1].head.name, "file");
    EXPECT_TRUE(parts[1].head.is_file);
    EXPECT_EQ(parts[1].head.filename, "a \"b\"; c.wav");
    EXPECT_EQ(parts[1].bytes, "RI\r\n--b4\r\n\r\nFF");
    EXPECT_EQ(parts[2].bytes, "");
    for (const auto& part : parts) EXPECT_TRUE(part.ended);
  }
}

TEST(Multipart, KeepsBytesOfAnyValue) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 20000; ++i)
    bytes += static_cast<char>(random() % 4 == 0 ? "\r\n-b"[random() % 4] : random() % 256);
  const std::string form = "--b42\r\nContent-Disposition: form-data; name=x\r\n\r\n" + bytes + "\r\n--b42--";
  for (const size_t piece : {1U, 7U, 4096U, 1000000U}) {
    std::vector<size_t> cuts;
    for (size_t cut = piece; cut < form.size(); cut += piece) cuts.push_back(cut);
    const auto parts = Parse(form, cuts);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0].bytes, bytes);
  }
}

TEST(Multipart, RefusesWhatIsNoWholeForm) {
  const std::string form = kForm;
  // Cut anywhere before its last boundary's dashes.
  for (size_t length = 0; length < form.rfind("--\r\nepilogue") + 2; ++length) {
    EXPECT_THROW(Parse(form.substr(0, length), {}), InputError) << length;
  }
  EXPECT_THROW(Parse("--b42xx\r\n", {}), InputError);
  EXPECT_THROW(Parse("--b42\r\nContent-Type: text/plain\r\n\r\nno name\r\n--b42--", {}), InputError);
  EXPECT_THROW(Parse(std::string(100000, 'x'), {}), InputError);
  EXPECT_THROW(Parse("--b42\r\nContent-Disposition: form-data; name=" + std::string(100000, 'x'), {}), InputError);
  std::string many;
  for (int i = 0; i <= MultipartParser::kMaxParts; ++i) many += "--b42\r\nContent-Disposition: x; name=a\r\n\r\n\r\n";
  EXPECT_THROW(Parse(many + "--b42--", {}), InputError);
}

TEST(Multipart, ReadsTheBoundary) {
  EXPECT_EQ(MultipartParser::BoundaryOf("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(MultipartParser::BoundaryOf("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), "a b");
  for (const std::string bad : {"", "application/json", "multipart/form-data",
                                "multipart/form-data; boundary=", "multipart/mixed; boundary=a"}) {
    EXPECT_THROW(MultipartParser::BoundaryOf(bad), InputError) << bad;
  }
  EXPECT_THROW(MultipartParser::BoundaryOf("multipart/form-data; boundary=" + std::string(71, 'x')), InputError);
}

}  // namespace
}  // namespace antiphon::serve
