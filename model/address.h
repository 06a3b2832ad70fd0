// Addresses with a type: which space a number lives in is part of what it is. AddressSpace
// (run-time to file) and elf::ElfFile (file offset to ELF virtual address) are the only converters.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <utility>

namespace ptarmigan {

template <typename Space>
struct Address {
  uint64_t value = 0;

  auto operator<=>(const Address&) const = default;
  Address operator+(uint64_t delta) const { return {value + delta}; }
  Address operator-(uint64_t delta) const { return {value - delta}; }
  // Distance in bytes, modulo 2^64.
  uint64_t operator-(Address other) const { return value - other.value; }

  template <typename H>
  friend H AbslHashValue(H state, Address address) {
    return H::combine(std::move(state), address.value);
  }
};

// A run-time virtual address in some process or in the kernel.
using VirtAddr = Address<struct VirtAddrSpace>;
// A virtual address as the ELF file's program headers and symbols use it.
using FileVaddr = Address<struct FileVaddrSpace>;
// A byte position in an object file.
using FileOffset = Address<struct FileOffsetSpace>;

}  // namespace ptarmigan

template <typename Space>
struct std::hash<ptarmigan::Address<Space>> {
  size_t operator()(ptarmigan::Address<Space> address) const {
    return std::hash<uint64_t>()(address.value);
  }
};
