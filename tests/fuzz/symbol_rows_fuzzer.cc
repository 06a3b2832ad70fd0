// What collectors might say about an object, in any order and however contradictory: the table that is written must
// open, be undamaged, and answer within its bounds. Bytes are read as commands.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "symbolize/symbol_rows.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_table_writer.h"

namespace {

using ptarmigan::ByteCursor;
using ptarmigan::CodeRange;
using ptarmigan::SymbolRows;
using ptarmigan::SymbolSource;

SymbolSource Source(uint8_t byte) { return static_cast<SymbolSource>(byte % 6); }

std::string Name(uint8_t byte) {
  return byte == 0 ? std::string() : "n" + std::to_string(byte % 32);
}

// Addresses close together, with an outlier now and then.
uint64_t Address(ByteCursor* cursor) {
  const uint16_t place = cursor->U16();
  return place == 0xffff ? cursor->U64() : 0x1000U + place % 0x800;
}

void Command(ByteCursor* cursor, SymbolRows* rows) {
  switch (cursor->U8() % 5) {
    case 0:
      rows->AddFunction({.start = {Address(cursor)},
                         .size_bytes = cursor->U8(),
                         .names = {.system_name = Name(cursor->U8()),
                                   .name = Name(cursor->U8() / 4),
                                   .file = Name(cursor->U8()),
                                   .start_line = cursor->U8()},
                         .source = Source(cursor->U8())});
      break;
    case 1: {
      const uint64_t start = Address(cursor);
      const CodeRange range = {{start}, {start + cursor->U8()}};
      rows->AddInline(cursor->U8() % 64, {.system_name = Name(cursor->U8())},
                      {.file = Name(cursor->U8()), .line = cursor->U16(), .column = cursor->U8()},
                      std::span(&range, 1));
      break;
    }
    case 2: {
      const uint64_t start = Address(cursor);
      rows->AddRange(cursor->U8() % 64, {{start}, {start + cursor->U16() % 0x200}});
      break;
    }
    case 3: {
      std::vector<SymbolRows::LineRow> lines(cursor->U8() % 16);
      const uint64_t start = Address(cursor);
      for (SymbolRows::LineRow& line : lines) {
        line = {.start = {start + cursor->U8()},
                .file = rows->Intern(Name(cursor->U8())),
                .line = cursor->U16()};
      }
      rows->AddLines(Source(cursor->U8()), lines, {start + cursor->U16() % 0x200});
      break;
    }
    default: {
      const uint64_t start = Address(cursor);
      rows->SetCodeRanges({{{start}, {start + cursor->U16()}}, {{0x1000}, {0x1400}}});
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 1 << 16;
  if (size > kBytesMax) return 0;
  SymbolRows rows;
  for (ByteCursor cursor(std::as_bytes(std::span(data, size)), std::endian::little);
       !cursor.AtEnd();) {
    Command(&cursor, &rows);
  }
  auto bytes = ptarmigan::WriteSymbolTable(rows, {});
  CHECK(bytes.has_value());
  const auto table = ptarmigan::SymbolTable::FromString(std::move(bytes).value(), "fuzz");
  CHECK(table.has_value());
  ptarmigan::FrameRef frames[ptarmigan::SymbolTable::kFramesMax];
  for (uint64_t address = 0xff0; address < 0x1b00; address += 3) {
    const size_t count = (*table)->FindFrames({address}, frames);
    CHECK(count <= ptarmigan::SymbolTable::kFramesMax);
    const auto function = (*table)->FindFunction({address});
    CHECK(!function || (function->start.value <= address && address < function->end.value));
  }
  CHECK(!(*table)->damaged());
  return 0;
}
