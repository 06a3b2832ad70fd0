// Truth outside: zlib inflates what the parts make, and says where the blocks of a stream lie.
#include "export/internal/deflate_parts.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kLastBlock("\x03\0", 2);

std::string Noise(size_t size) {
  std::mt19937 random(1);
  std::string noise(size, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

std::string Numbers(size_t size) {
  std::string text;
  for (uint64_t i = 0; text.size() < size; ++i) text += std::to_string(i * 2654435761 % 100003);
  text.resize(size);
  return text;
}

// Stretches with statistics of their own, so that a compressor starts new blocks.
std::string Changing(size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i)
    text += i % 3 == 0 ? Noise(20000) : i % 3 == 1 ? Numbers(30000) : std::string(10000, 'a');
  text.resize(size);
  return text;
}

std::string InflateRaw(const std::string& stream, size_t plain_bytes) {
  std::string plain(plain_bytes + 1, '\0');
  z_stream z = {};
  EXPECT_EQ(inflateInit2(&z, -15), Z_OK);
  std::string input = stream;
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(plain.data());
  z.avail_out = static_cast<uInt>(plain.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(z.avail_in, 0U);
  plain.resize(z.total_out);
  inflateEnd(&z);
  return plain;
}

std::string DeflateRaw(const std::string& plain, int level, int strategy) {
  std::string stream(compressBound(plain.size()) + 1000, '\0');
  z_stream z = {};
  EXPECT_EQ(deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy), Z_OK);
  std::string input = plain;
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(stream.data());
  z.avail_out = static_cast<uInt>(stream.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  stream.resize(z.total_out);
  deflateEnd(&z);
  return stream;
}

// Walks with zlib, block by block.
LastBlock FindLastBlockByZlib(const std::string& stream) {
  constexpr int kAtBlockEnd = 128;
  constexpr int kInLastBlock = 64;
  constexpr int kUnusedBits = 63;
  z_stream z = {};
  EXPECT_EQ(inflateInit2(&z, -15), Z_OK);
  std::string input = stream;
  std::string plain(1 << 22, '\0');
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(plain.data());
  z.avail_out = static_cast<uInt>(plain.size());
  LastBlock last;
  int result = Z_OK;
  while (result == Z_OK) {
    result = inflate(&z, Z_BLOCK);
    const size_t position = z.total_in * 8 - static_cast<size_t>(z.data_type & kUnusedBits);
    if ((z.data_type & kAtBlockEnd) == 0) continue;
    if ((z.data_type & kInLastBlock) != 0) {
      last.end = position;
    } else {
      last.begin = position;
    }
  }
  EXPECT_EQ(result, Z_STREAM_END);
  inflateEnd(&z);
  return last;
}

TEST(DeflateParts, MakeOneStreamWhateverTheyHold) {
  for (int level = 1; level <= 12; ++level) {
    DeflateParts deflater(level);
    std::string stream;
    std::string plain;
    for (const std::string& part :
         {std::string(), std::string("a"), Noise(70000), std::string(500000, 'x'), Numbers(400000),
          Changing(300000), std::string("ab"), Noise(100)}) {
      stream += deflater.Add(AsBytes(part));
      plain += part;
    }
    EXPECT_EQ(InflateRaw(stream + std::string(kLastBlock), plain.size()), plain) << level;
  }
}

TEST(DeflateParts, EndAtAByteWhereverTheirLastBlockEnds) {
  DeflateParts deflater(1);
  std::string stream;
  std::string plain;
  for (size_t size = 1; size < 200; ++size) {
    const std::string part = Numbers(size);
    stream += deflater.Add(AsBytes(part));
    plain += part;
  }
  EXPECT_EQ(InflateRaw(stream + std::string(kLastBlock), plain.size()), plain);
}

TEST(FindLastBlock, AgreesWithZlib) {
  for (const std::string& plain : {std::string(), std::string("a"), Noise(100000), Numbers(1 << 20),
                                   Changing(1 << 20), std::string(1 << 20, 'x')}) {
    for (const int level : {0, 1, 6, 9}) {
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED}) {
        const std::string stream = DeflateRaw(plain, level, strategy);
        const LastBlock expected = FindLastBlockByZlib(stream);
        const std::string with_slack = stream + std::string(kWalkSlackBytes, '\xff');
        const LastBlock found =
            FindLastBlock(reinterpret_cast<const uint8_t*>(with_slack.data()), stream.size());
        EXPECT_EQ(found.begin, expected.begin) << level << " " << strategy;
        EXPECT_EQ(found.end, expected.end) << level << " " << strategy;
      }
    }
  }
}

}  // namespace
}  // namespace ptarmigan::internal
