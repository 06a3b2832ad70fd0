// PageArena: memory for the unpacked pages of a symbol table, freed all at once. Many small pages become few large
// pieces.
//
// Any number of threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace ptarmigan::internal {

class PageArena {
 public:
  // Pieces grow from the first to the second of these.
  static constexpr size_t kPieceBytesMin = size_t{16} << 10;
  static constexpr size_t kPieceBytesMax = size_t{256} << 10;

  // Room for `count` values, not initialised.
  template <typename T>
  std::span<T> Make(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    return {static_cast<T*>(Allocate(count * sizeof(T))), count};
  }
  // What was taken for pieces.
  size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  static constexpr size_t kAlignment = 8;

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  void* Allocate(size_t bytes);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<void, Free>> pieces_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  size_t bytes_ = 0;
  size_t piece_bytes_ = kPieceBytesMin;
};

}  // namespace ptarmigan::internal
