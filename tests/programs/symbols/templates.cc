// A program whose code is mostly inlined templates: for tests of inline chains. WIDTH (default 6) multiplies the
// instantiations and with them the debug information.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#ifndef WIDTH
#define WIDTH 6
#endif

namespace shop {

template <int kKind>
struct Item {
  std::string name;
  uint64_t price = 0;
  std::vector<uint32_t> parts;

  bool operator<(const Item& other) const {
    return price != other.price ? price < other.price : name < other.name;
  }
  template <typename Visitor>
  auto Visit(Visitor&& visitor) const {
    uint64_t sum = kKind;
    for (const uint32_t part : parts) sum += visitor(part, price);
    return sum;
  }
};

template <typename T>
class Shelf {
 public:
  void Add(T item) {
    index_[item.name].push_back(items_.size());
    items_.push_back(std::move(item));
  }
  uint64_t Total() const {
    return std::accumulate(items_.begin(), items_.end(), uint64_t{0},
                           [](uint64_t sum, const T& item) {
                             return sum + item.Visit([](uint32_t part, uint64_t price) {
                               return part % 7 == 0 ? price * part : price + part;
                             });
                           });
  }
  void Sort() { std::stable_sort(items_.begin(), items_.end()); }
  const T* Find(const std::string& name) const {
    const auto found = index_.find(name);
    if (found == index_.end()) return nullptr;
    return &items_.at(found->second.front());
  }
  template <typename F>
  size_t RemoveIf(F&& predicate) {
    const auto end = std::remove_if(items_.begin(), items_.end(), std::forward<F>(predicate));
    const size_t removed = static_cast<size_t>(items_.end() - end);
    items_.erase(end, items_.end());
    return removed;
  }

 private:
  std::vector<T> items_;
  std::unordered_map<std::string, std::vector<size_t>> index_;
};

template <int kKind>
uint64_t Work(uint64_t seed) {
  Shelf<Item<kKind>> shelf;
  std::map<std::pair<int, std::string>, std::unique_ptr<Item<kKind>>> archive;
  for (int i = 0; i < 20; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    Item<kKind> item;
    item.name = "item " + std::to_string(seed % 97);
    item.price = seed % 1000;
    item.parts.assign(seed % 5 + 1, static_cast<uint32_t>(seed >> 40));
    archive.emplace(std::pair(i % 3, item.name), std::make_unique<Item<kKind>>(item));
    shelf.Add(std::move(item));
  }
  shelf.Sort();
  std::variant<uint64_t, std::string, std::vector<int>> value = shelf.Total();
  if (seed % 3 == 0) value = std::to_string(seed);
  if (seed % 3 == 1) value = std::vector<int>(seed % 9);
  const std::function<uint64_t(const Item<kKind>&)> weigh = [&](const Item<kKind>& item) {
    return item.Visit([&](uint32_t part, uint64_t price) { return part ^ price ^ seed; });
  };
  uint64_t sum = std::visit(
      [](const auto& held) -> uint64_t {
        if constexpr (std::is_integral_v<std::decay_t<decltype(held)>>)
          return held;
        else
          return held.size();
      },
      value);
  for (const auto& [key, item] : archive) {
    sum += weigh(*item) + key.second.size();
    if (const auto* found = shelf.Find(key.second)) sum += found->parts.size();
  }
  sum += shelf.RemoveIf([&](const Item<kKind>& item) { return item.price % 2 == seed % 2; });
  if (sum == 0) throw std::runtime_error("nothing on shelf " + std::to_string(kKind));
  return sum;
}

template <int... kKinds>
uint64_t WorkAll(uint64_t seed, std::integer_sequence<int, kKinds...>) {
  return (Work<kKinds>(seed) + ... + 0);
}

}  // namespace shop

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  std::printf("%llu\n", static_cast<unsigned long long>(
                            shop::WorkAll(seed, std::make_integer_sequence<int, WIDTH>())));
  return 0;
}
