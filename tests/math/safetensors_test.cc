#include "math/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "oracle.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

Matrix Numbered(int64_t rows, int64_t cols) {
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = 0.5f * static_cast<float>(i);
  return m;
}

std::string WithHeader(const std::string& json, size_t data_bytes) {
  const uint64_t n = json.size();
  std::string file(reinterpret_cast<const char*>(&n), 8);
  return file + json + std::string(data_bytes, '\1');
}

class Safetensors : public ::testing::Test {
 protected:
  std::string ErrorFor(const std::string& bytes) {
    WriteFileAtomically(path_, bytes);
    try {
      SafetensorsReader reader(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  void WriteSample() {
    SafetensorsWriter writer;
    writer.Add("b.weight", Numbered(3, 2));
    const std::vector<float> v = {1, 2, 3};
    writer.Add("a.vector", std::span<const float>(v));
    const std::vector<int32_t> ids = {7, -8};
    writer.Add("ids", std::span<const int32_t>(ids));
    writer.Add("empty", Matrix(0, 4));
    DoubleMatrix d(1, 2);
    d(0, 1) = 0.1;
    writer.Add("double", d);
    writer.SetMetadata("text", "öäü \"quoted\"\n");
    writer.Write(path_);
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

TEST_F(Safetensors, ComeBackAsTheyWere) {
  WriteSample();
  const SafetensorsReader reader(path_);
  EXPECT_EQ(reader.Names(), (std::vector<std::string>{"a.vector", "b.weight", "double", "empty", "ids"}));
  EXPECT_EQ(reader.Metadata("text"), "öäü \"quoted\"\n");
  const Matrix m = reader.ReadMatrix("b.weight");
  EXPECT_EQ(m(2, 1), 2.5f);
  EXPECT_EQ(reader.ReadFloats("a.vector"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(reader.ReadInts("ids"), (std::vector<int64_t>{7, -8}));
  EXPECT_EQ(reader.ReadDoubleMatrix("double")(0, 1), 0.1);
  EXPECT_EQ(reader.ReadMatrix("empty").cols(), 4);
  Matrix target(3, 2);
  reader.ReadInto("b.weight", target);
  EXPECT_EQ(target(2, 1), 2.5f);
}

TEST_F(Safetensors, AreTheSameBytesEachTime) {
  WriteSample();
  const std::string first = ReadFile(path_);
  WriteSample();
  EXPECT_EQ(ReadFile(path_), first);
}

TEST_F(Safetensors, NameWhatDoesNotFit) {
  WriteSample();
  const SafetensorsReader reader(path_);
  EXPECT_THROW(reader.ReadFloats("b.weight"), InputError);
  EXPECT_THROW(reader.ReadInts("b.weight"), InputError);
  EXPECT_THROW(reader.ReadMatrix("missing"), InputError);
  EXPECT_THROW(reader.Metadata("missing"), InputError);
  Matrix wrong(2, 3);
  try {
    reader.ReadInto("b.weight", wrong);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("shape [3, 2], expected [2, 3]"));
    EXPECT_THAT(e.what(), HasSubstr("model.safetensors"));
  }
}

TEST_F(Safetensors, AreRefusedWhenCutAnywhere) {
  WriteSample();
  const std::string whole = ReadFile(path_);
  for (size_t n = 0; n < whole.size(); n += 7) EXPECT_NE(ErrorFor(whole.substr(0, n)), "") << n;
  EXPECT_NE(ErrorFor(whole + "x"), "");
}

TEST_F(Safetensors, AreRefusedWhenAnyByteChanges) {
  WriteSample();
  const std::string whole = ReadFile(path_);
  for (size_t i = 8; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    if (ErrorFor(changed).empty()) {
      EXPECT_FALSE(SafetensorsReader(path_).has_checksum()) << i;  // the key's own name was hit
    }
  }
}

TEST_F(Safetensors, HeadersThatLieAreRefused) {
  EXPECT_THAT(ErrorFor(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)), HasSubstr("claims"));
  EXPECT_THAT(ErrorFor(WithHeader("{", 0)), HasSubstr("JSON"));
  EXPECT_THAT(ErrorFor(WithHeader("[]", 0)), HasSubstr("object"));
  const auto tensor = [](const std::string& rest) { return WithHeader("{\"a\":{" + rest + "}}", 8); };
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,16])")), HasSubstr("cut short"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")), HasSubstr("needs 12 bytes"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])")), HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])")), HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])")),
              HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])")), HasSubstr("lies at"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"Q7","shape":[2],"data_offsets":[0,8])")), HasSubstr("not supported"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])")), HasSubstr("cover 4 of 8"));
  EXPECT_THAT(ErrorFor(tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])")), HasSubstr("needs dtype"));
  EXPECT_THAT(ErrorFor(WithHeader(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("must be a text"));
}

TEST_F(Safetensors, OfOthersNeedNoChecksum) {
  EXPECT_EQ(ErrorFor(WithHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)), "");
}

TEST_F(Safetensors, AreReadByPythonAndTheReverse) {
  const auto python = OraclePython("safetensors");
  if (!python) GTEST_SKIP() << "no Python with safetensors";
  WriteSample();
  const std::string script =
      "import sys, numpy as np\n"
      "from safetensors.numpy import load_file, save_file\n"
      "t = load_file(sys.argv[1])\n"
      "assert t['b.weight'].shape == (3, 2) and t['b.weight'][2, 1] == 2.5, t\n"
      "assert t['ids'].tolist() == [7, -8] and t['double'][0, 1] == 0.1\n"
      "save_file({'h': np.array([[1.5, -2.0]], np.float16), 'l': np.array([2**40], np.int64),\n"
      "           'w': np.arange(6, dtype=np.float32).reshape(2, 3)}, sys.argv[2], {'who': 'python'})\n";
  const auto other = folder_ / "other.safetensors";
  ASSERT_TRUE(RunPython(*python, script, "'" + path_.string() + "' '" + other.string() + "'"));
  const SafetensorsReader reader(other);
  EXPECT_EQ(reader.Metadata("who"), "python");
  EXPECT_EQ(reader.ReadMatrix("h")(0, 1), -2.0f);
  EXPECT_EQ(reader.ReadInts("l")[0], int64_t{1} << 40);
  EXPECT_EQ(reader.ReadMatrix("w")(1, 2), 5.0f);
}

}  // namespace
}  // namespace antiphon
