#include "data/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "data/archive_value.h"
#include "data/byte_source.h"
#include "oracle.h"
#include "put_file.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Matrix NormalMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(rng.Normal() * 5.0 + 3.0);
  return m;
}

void ExpectNear(const Matrix& a, const Matrix& b, double tolerance) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a.data()[i], b.data()[i], tolerance) << "at " << i;
}

template <class F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

class Archive : public ::testing::Test {
 protected:
  fs::path Path(const std::string& name) const { return folder_.path() / name; }
  std::string Put(const std::string& name, std::string_view bytes) const {
    PutFile(Path(name), bytes);
    return Path(name).string();
  }
  ::antiphon::testing::TemporaryFolder folder_;
};

struct Variant {
  std::string file;
  TableWriteOptions options;
  double tolerance;
};

TEST_F(Archive, GivesBackMatricesInEveryForm) {
  const std::vector<Variant> variants = {
      {"plain.ark", {}, 0.0},
      {"text.ark", {.text = true}, 0.0},
      {"plain.ark.gz", {}, 0.0},
      {"text.ark.gz", {.text = true}, 0.0},
      {"cm.ark", {.coding = MatrixCoding::kColumns8}, 0.3},
      {"cm2.ark", {.coding = MatrixCoding::kGlobal16}, 0.001},
      {"cm3.ark", {.coding = MatrixCoding::kGlobal8}, 0.1},
  };
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{40, 13}, {0, 0}, {1, 1}, {3, 2}, {5, 7}};
  for (const Variant& v : variants) {
    TableWriter<Matrix> writer(Path(v.file), v.options);
    for (size_t i = 0; i < shapes.size(); ++i) {
      writer.Write("utt" + std::to_string(i), NormalMatrix(shapes[i].first, shapes[i].second, i));
    }
    EXPECT_FALSE(fs::exists(Path(v.file))) << "visible before Close";
    writer.Close();
    std::vector<std::string> tables = {Path(v.file).string()};
    if (v.file.ends_with(".ark")) tables.push_back("scp:" + Path(fs::path(v.file).stem().string() + ".scp").string());
    for (const std::string& table : tables) {
      SCOPED_TRACE(table);
      size_t i = 0;
      for (SequentialReader<Matrix> reader(table); reader.Next(); ++i) {
        EXPECT_EQ(reader.key(), "utt" + std::to_string(i));
        ExpectNear(reader.value(), NormalMatrix(shapes[i].first, shapes[i].second, i), v.tolerance);
      }
      EXPECT_EQ(i, shapes.size());
      const RandomAccessReader<Matrix> random(table);
      EXPECT_THAT(random.keys(), ElementsAre("utt0", "utt1", "utt2", "utt3", "utt4"));
      ExpectNear(random.Get("utt3"), NormalMatrix(3, 2, 3), v.tolerance);
      EXPECT_FALSE(random.Has("utt9"));
      EXPECT_THAT(ErrorOf([&] { random.Get("utt9"); }), HasSubstr("has no key 'utt9'"));
    }
  }
}

TEST(ArchiveValue, GivesBackVectorsAndCanBeSkipped) {
  EXPECT_TRUE(rc::check("float, double and int vectors, binary and text", [](std::vector<int32_t> ints, bool text) {
    std::vector<double> doubles;
    std::vector<float> floats;
    for (const int32_t i : ints) {
      doubles.push_back(i / 7.0);
      floats.push_back(static_cast<float>(i) / 7.0f);
    }
    const auto round_trip = [&](const auto& value) {
      using T = std::decay_t<decltype(value)>;
      std::string bytes;
      AppendValue(value, text, MatrixCoding::kPlain, bytes);
      AppendValue(T{}, text, MatrixCoding::kPlain, bytes);
      const auto span = std::as_bytes(std::span(bytes));
      const auto in = MakeMemorySource(span, "memory");
      RC_ASSERT(ReadValue<T>(*in) == value);
      const auto middle = in->offset();
      RC_ASSERT(ReadValue<T>(*in).empty());
      RC_ASSERT(in->Peek() == -1);
      const auto again = MakeMemorySource(span, "memory");
      SkipValue<T>(*again);
      RC_ASSERT(again->offset() == middle);
    };
    round_trip(ints);
    round_trip(doubles);
    round_trip(floats);
  }));
}

TEST_F(Archive, GivesBackVectors) {
  TableWriter<std::vector<double>> writer(Path("v.ark"));
  writer.Write("a", {1.5, -2.0});
  writer.Write("b", {});
  writer.Close();
  EXPECT_THAT(RandomAccessReader<std::vector<float>>(Path("v.ark").string()).Get("a"), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(RandomAccessReader<std::vector<double>>(Path("v.scp").string()).Get("b").empty());
}

TEST_F(Archive, ConvertsBetweenFloatAndDouble) {
  TableWriter<DoubleMatrix> writer(Path("d.ark"));
  DoubleMatrix d(2, 3);
  d(1, 2) = 1.0 / 3.0;
  writer.Write("a", d);
  writer.Close();
  EXPECT_EQ(ReadObject<Matrix>(Path("d.ark").string() + ":2")(1, 2), 1.0f / 3.0f);
  EXPECT_EQ(ReadObject<DoubleMatrix>(Path("d.ark").string() + ":2")(1, 2), 1.0 / 3.0);
}

TEST_F(Archive, CutsRangesOut) {
  const Matrix m = NormalMatrix(10, 5, 1);
  WriteObject(Path("m.mat"), m);
  const std::string path = Path("m.mat").string();
  const Matrix part = ReadObject<Matrix>(path + "[2:4,1:3]");
  ASSERT_EQ(part.rows(), 3);
  ASSERT_EQ(part.cols(), 3);
  EXPECT_EQ(part(0, 0), m(2, 1));
  EXPECT_EQ(part(2, 2), m(4, 3));
  EXPECT_EQ(ReadObject<Matrix>(path + "[9:9]").rows(), 1);
  EXPECT_EQ(ReadObject<Matrix>(path + "[:,4:4]").cols(), 1);
  EXPECT_THAT(ErrorOf([&] { ReadObject<Matrix>(path + "[5:10]"); }), HasSubstr("does not lie within"));
  EXPECT_THAT(ErrorOf([&] { ReadObject<Matrix>(path + "[5:4]"); }), HasSubstr("is no range"));
  EXPECT_THAT(ErrorOf([&] { ReadObject<Matrix>(path + ":999999"); }), HasSubstr("no byte 999999"));
}

TEST_F(Archive, IsFoundWhenItsFolderMoved) {
  TableWriter<Matrix> writer(Path("old/m.ark"));
  writer.Write("a", NormalMatrix(2, 2, 1));
  writer.Close();
  fs::rename(Path("old"), Path("new"));
  EXPECT_EQ(RandomAccessReader<Matrix>(Path("new/m.scp").string()).Get("a").rows(), 2);
}

// It may as well be another file of that name.
TEST_F(Archive, OfAnotherPlaceThanIsNamedIsReadWithAWarning) {
  Put("m.ark", "a  [ 1 2 ]\n");
  const std::string named = Path("gone/m.ark").string();
  const auto warning = [&](const std::string& place) {
    std::ostringstream text;
    log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    EXPECT_EQ(RandomAccessReader<Matrix>(Put("m.scp", "a " + place + ":2\n")).Get("a").cols(), 2);
    log::SetLogger(std::make_shared<spdlog::logger>("silent"));
    return text.str();
  };
  EXPECT_THAT(warning(named), ::testing::AllOf(HasSubstr("'" + named + "', which is not there"),
                                               HasSubstr("'" + Path("m.ark").string() + "' is read instead")));
  EXPECT_THAT(warning("gone/m.ark"), HasSubstr("'gone/m.ark', which is not there"));
  const std::string own = folder_.path().filename().string();
  EXPECT_EQ(warning(own + "/m.ark"), "") << "from another working directory";
  EXPECT_THAT(warning("gone/" + own + "/m.ark"), HasSubstr("is read instead"));
  EXPECT_EQ(warning("m.ark"), "");
  EXPECT_EQ(warning(Path("m.ark").string()), "");
}

TEST_F(Archive, LeavesNothingBehindUnlessClosed) {
  {
    TableWriter<Matrix> writer(Path("m.ark"));
    writer.Write("a", NormalMatrix(2, 2, 1));
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Archive, ScriptsMayHaveBlanksOfAnyKindAroundFields) {
  Put("m.ark", "a  [ 1 2 ]\nb  [ 3 ]\n");
  const std::string script = Put("m.scp", "\t a \t m.ark:1 \v\f\r\n \v\r\n\fb m.ark:12\t\r\n");
  const RandomAccessReader<Matrix> reader(script);
  EXPECT_EQ(reader.Get("a").cols(), 2);
  EXPECT_EQ(reader.Get("b").cols(), 1);
  EXPECT_EQ(SequentialReader<Matrix>("scp:\t" + script + " \f").Next(), true);
}

TEST_F(Archive, NamesFileKeyAndByteOfWhatIsWrong) {
  using namespace std::string_literals;
  const auto read = [](const std::string& path) {
    return ErrorOf([&] {
      for (SequentialReader<Matrix> reader(path); reader.Next();) {
      }
    });
  };
  const std::string huge = Put("huge.ark", "utt1 \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f"s);
  EXPECT_THAT(read(huge), AllOf(HasSubstr("huge.ark"), HasSubstr("key 'utt1', byte 5"), HasSubstr("would need")));
  EXPECT_THAT(read(Put("neg.ark", "utt1 \0BFM \4\xff\xff\xff\xff\4\1\0\0\0"s)), HasSubstr("impossible"));
  EXPECT_THAT(read(Put("cm.ark", "utt1 \0BCM \0\0\0\0\0\0\x80\x3f\xff\xff\xff\x7f\xff\xff\xff\x7f"s)),
              HasSubstr("would need"));
  EXPECT_THAT(read(Put("vec.ark", "utt1 \0BFV \4\0\0\0\0"s)), HasSubstr("expected a matrix, found a vector"));
  EXPECT_THAT(read(Put("sm.ark", "utt1 \0BSM \4\0\0\0\0"s)), HasSubstr("sparse"));
  EXPECT_THAT(read(Put("junk.ark",
                       "\x7f"
                       "ELF\2\1\1\0"s)),
              HasSubstr("no Kaldi"));
  EXPECT_THAT(read(Put("key.ark", "utt1"s)), HasSubstr("cut short"));
  EXPECT_THAT(read(Put("text.ark", "utt1  [\n 1 2\n 3 ]\n"s)), HasSubstr("row 1 has 1 numbers, row 0 has 2"));
  EXPECT_THAT(read(Put("word.ark", "utt1  [ 1 two ]\n"s)), HasSubstr("expected a number, found 'two'"));
  EXPECT_THAT(read(Put("open.ark", "utt1  [ 1 2\n"s)), HasSubstr("before the closing"));
  EXPECT_THAT(read(Put("nan.ark", "utt1  [\n 1 nan ]\n"s)), HasSubstr("row 0, column 1 holds nan"));
  EXPECT_THAT(read(Put("twice.ark", "a  [ 1 ]\na  [ 2 ]\n"s)), HasSubstr("'a' is there twice"));
  EXPECT_THAT(read(Put("cmd.scp", "a cat x |\n"s)), AllOf(HasSubstr("cmd.scp:1"), HasSubstr("is a command")));
  EXPECT_THAT(read(Put("bare.scp", "a x.ark\nb\n"s)), HasSubstr("bare.scp:2"));
  EXPECT_THROW(SequentialReader<Matrix>("ark:cat x |"), UsageError);
  EXPECT_THROW(SequentialReader<Matrix>("ark,p:x"), UsageError);
  EXPECT_EQ(SequentialReader<Matrix>(Path("nan.ark").string(), {.require_finite = false}).Next(), true);
  TableWriter<Matrix> writer(Path("w.ark"), {.coding = MatrixCoding::kColumns8});
  Matrix bad(2, 2);
  bad(1, 0) = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ErrorOf([&] { writer.Write("k", bad); }), AllOf(HasSubstr("key 'k'"), HasSubstr("row 1 holds inf")));
  EXPECT_THAT(ErrorOf([&] { writer.Write("a b", Matrix(1, 1)); }), HasSubstr("blanks"));
}

TEST_F(Archive, NeverCrashesOnDamagedBytes) {
  for (const Variant& v : std::vector<Variant>{{"p.ark", {}, 0},
                                               {"t.ark", {.text = true}, 0},
                                               {"g.ark.gz", {}, 0},
                                               {"c.ark", {.coding = MatrixCoding::kColumns8}, 0}}) {
    TableWriter<Matrix> writer(Path(v.file), v.options);
    for (int i = 0; i < 3; ++i) writer.Write("utt" + std::to_string(i), NormalMatrix(6, 4, 1));
    writer.Close();
    const std::string whole = ReadFile(Path(v.file));
    EXPECT_TRUE(rc::check(v.file + " survives", [&] {
      std::string bytes = whole;
      const int changes = *rc::gen::inRange(0, 4);
      for (int i = 0; i < changes; ++i) bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
      bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
      const std::string path = Put("damaged", bytes);
      const auto run = [&](auto&& f) {
        try {
          f();
        } catch (const InputError&) {
        }
      };
      run([&] {
        for (SequentialReader<Matrix> reader(path); reader.Next();) {
        }
      });
      run([&] {
        const RandomAccessReader<Matrix> reader(path);
        for (const std::string& key : reader.keys()) reader.Get(key);
      });
      run([&] {
        for (SequentialReader<std::vector<int32_t>> reader(path); reader.Next();) {
        }
      });
    }));
  }
}

TEST_F(Archive, IsReadByKaldiio) {
  const auto python = OraclePython("kaldiio");
  if (!python) GTEST_SKIP() << "no Python with kaldiio";
  const Matrix m = NormalMatrix(30, 4, 7);
  const auto write = [&](const std::string& name, TableWriteOptions options) {
    TableWriter<Matrix> writer(Path(name), options);
    writer.Write("a", m);
    writer.Write("b", NormalMatrix(3, 4, 8));
    writer.Close();
  };
  write("plain.ark", {});
  write("text.ark", {.text = true});
  write("cm.ark", {.coding = MatrixCoding::kColumns8});
  write("cm2.ark", {.coding = MatrixCoding::kGlobal16});
  write("cm3.ark", {.coding = MatrixCoding::kGlobal8});
  TableWriter<std::vector<int32_t>> ints(Path("ints.ark"));
  ints.Write("a", {1, -2, 300000});
  ints.Close();
  TableWriter<std::vector<double>> doubles(Path("doubles.ark"));
  doubles.Write("a", {0.5, -1e10});
  doubles.Close();
  const auto output = RunPython(*python, R"(
import sys, numpy as np, kaldiio
folder = sys.argv[1]
reference = np.loadtxt(folder + '/reference.txt')
for name, tolerance in (('plain', 1e-6), ('text', 1e-6), ('cm', 0.3), ('cm2', 1e-3), ('cm3', 0.1)):
    for table in (dict(kaldiio.load_ark(folder + '/%s.ark' % name)), dict(kaldiio.load_scp(folder + '/%s.scp' % name))):
        assert sorted(table) == ['a', 'b'], table
        assert table['b'].shape == (3, 4), name
        assert np.abs(table['a'] - reference).max() <= tolerance, name
assert dict(kaldiio.load_ark(folder + '/ints.ark'))['a'].tolist() == [1, -2, 300000]
assert dict(kaldiio.load_ark(folder + '/doubles.ark'))['a'].tolist() == [0.5, -1e10]
print('good')
)",
                                ([&] {
                                  std::string text;
                                  for (int64_t r = 0; r < m.rows(); ++r) {
                                    for (const float v : m.Row(r)) text += fmt::format("{} ", v);
                                    text += '\n';
                                  }
                                  Put("reference.txt", text);
                                  return folder_.path().string();
                                })());
  EXPECT_EQ(output.value_or("failed"), "good\n");
}

TEST_F(Archive, ReadsWhatKaldiioWrites) {
  const auto python = OraclePython("kaldiio");
  if (!python) GTEST_SKIP() << "no Python with kaldiio";
  const auto output = RunPython(*python, R"(
import sys, numpy as np, kaldiio
folder = sys.argv[1]
rng = np.random.RandomState(1)
a = (rng.randn(50, 6) * 5 + 3).astype(np.float32)
small = a[:3]
for method in (None, 2, 3, 5):
    name = folder + '/m%s' % (method or 0)
    kaldiio.save_ark(name + '.ark', {'a': a, 'small': small}, scp=name + '.scp', compression_method=method)
    kaldiio.save_ark(name + '.decoded.ark', dict(kaldiio.load_ark(name + '.ark')))
kaldiio.save_ark(folder + '/double.ark', {'a': a.astype(np.float64)})
kaldiio.save_ark(folder + '/text.ark', {'a': a}, text=True)
kaldiio.save_ark(folder + '/ints.ark', {'a': np.array([5, -7, 1 << 30], dtype=np.int32)})
kaldiio.save_ark(folder + '/vector.ark', {'a': a[0]})
print('good')
)",
                                folder_.path().string());
  ASSERT_EQ(output.value_or("failed"), "good\n");
  const Matrix a = RandomAccessReader<Matrix>(Path("m0.scp").string()).Get("a");
  ASSERT_EQ(a.rows(), 50);
  for (const std::string name : {"m0", "m2", "m3", "m5"}) {
    const RandomAccessReader<Matrix> ours(Path(name + ".scp").string());
    const RandomAccessReader<Matrix> theirs(Path(name + ".decoded.ark").string());
    ExpectNear(ours.Get("a"), theirs.Get("a"), 1e-4);
    ExpectNear(ours.Get("small"), theirs.Get("small"), 1e-4);
  }
  ExpectNear(RandomAccessReader<Matrix>(Path("double.ark").string()).Get("a"), a, 0.0);
  ExpectNear(RandomAccessReader<Matrix>(Path("text.ark").string()).Get("a"), a, 1e-5);
  EXPECT_THAT(RandomAccessReader<std::vector<int32_t>>(Path("ints.ark").string()).Get("a"),
              ElementsAre(5, -7, 1 << 30));
  EXPECT_EQ(RandomAccessReader<std::vector<float>>(Path("vector.ark").string()).Get("a")[3], a(0, 3));
}

}  // namespace
}  // namespace antiphon::data
