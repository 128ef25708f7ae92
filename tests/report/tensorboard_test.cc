#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "oracle.h"
#include "temporary_folder.h"

namespace antiphon::report {
namespace {

TEST(TensorBoard, Crc32cGivesThePublishedValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

// A reader written from the format's description alone, in another language: bit-by-bit CRC, generic protobuf walk.
constexpr const char* kReader = R"py(
import struct, sys
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]; at += 1
        value |= (byte & 127) << shift; shift += 7
        if byte < 128: return value, at
def fields(data):
    at, out = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0: value, at = varint(data, at)
        elif kind == 1: value = struct.unpack_from('<d', data, at)[0]; at += 8
        elif kind == 5: value = struct.unpack_from('<f', data, at)[0]; at += 4
        elif kind == 2:
            size, at = varint(data, at)
            value = data[at:at + size]; at += size
        else: raise ValueError(kind)
        out[key >> 3] = value
    return out
data = open(sys.argv[1], 'rb').read()
at = 0
while at < len(data):
    size, crc = struct.unpack_from('<QI', data, at)
    assert crc == masked(data[at:at + 8]), 'length checksum'
    payload = data[at + 12:at + 12 + size]
    assert struct.unpack_from('<I', data, at + 12 + size)[0] == masked(payload), 'payload checksum'
    at += 16 + size
    event = fields(payload)
    assert event[1] > 1.6e9, 'wall time'
    if 3 in event: print('version', event[3].decode())
    if 5 in event:
        value = fields(fields(event[5])[1])
        if 2 in value: print('scalar', event[2], value[1].decode(), value[2])
        if 8 in value: print('text', event[2], value[1].decode(), fields(value[8])[8].decode(), fields(fields(value[9])[1])[1].decode())
)py";

TEST(TensorBoard, AnIndependentReaderSeesScalarsAndTexts) {
  const auto python = OraclePython("struct");
  if (!python) GTEST_SKIP() << "no Python for the oracle";
  const testing::TemporaryFolder folder;
  const auto path = folder / TensorBoardWriter::kFileName;
  {
    TensorBoardWriter writer(path);
    writer.Scalar("loss/train", 300, 1.5);
    writer.Scalar("accuracy", 5000000000, 0.25);
    writer.Text("config", 0, std::string(200, 'x'));
  }
  const auto output = RunPython(*python, kReader, "'" + path.string() + "'");
  ASSERT_TRUE(output.has_value()) << "the reader refused the file";
  EXPECT_EQ(*output,
            "version brain.Event:2\nscalar 300 loss/train 1.5\nscalar 5000000000 accuracy 0.25\ntext 0 config " +
                std::string(200, 'x') + " text\n");
}

TEST(TensorBoard, ResumeCutsBackToTheCheckpointedPosition) {
  const testing::TemporaryFolder folder;
  const auto path = folder / TensorBoardWriter::kFileName;
  uint64_t position = 0;
  {
    TensorBoardWriter writer(path);
    writer.Scalar("loss", 1, 1.0);
    position = writer.position();
    writer.Scalar("loss", 2, 2.0);
  }
  const std::string whole = ReadFile(path);
  {
    TensorBoardWriter writer(path, position);
    EXPECT_EQ(writer.position(), position);
  }
  EXPECT_EQ(ReadFile(path), whole.substr(0, position));
}

// Whoever goes on behind a writer that was lost while it wrote.
TEST(TensorBoard, APieceOfARecordIsNoWholeEvent) {
  const testing::TemporaryFolder folder;
  const auto path = folder / TensorBoardWriter::kFileName;
  uint64_t before = 0;
  {
    TensorBoardWriter writer(path);
    writer.Scalar("loss", 1, 1.0);
    before = writer.position();
    writer.Scalar("loss", 2, 2.0);
  }
  const std::string whole = ReadFile(path);
  EXPECT_EQ(BytesOfWholeEvents(path), whole.size());
  for (uint64_t bytes = before; bytes < whole.size(); ++bytes) {
    WriteFileAtomically(path, std::string_view(whole).substr(0, bytes));
    EXPECT_EQ(BytesOfWholeEvents(path), before) << bytes;
  }
  for (uint64_t at = before; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    WriteFileAtomically(path, damaged);
    EXPECT_EQ(BytesOfWholeEvents(path), before) << at;
  }
  WriteFileAtomically(path, std::string_view());
  EXPECT_EQ(BytesOfWholeEvents(path), 0U);
}

}  // namespace
}  // namespace antiphon::report
