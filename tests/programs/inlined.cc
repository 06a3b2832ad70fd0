// inlined [SECONDS]: optimised C++ in which most of what runs was inlined: containers, algorithms and lambdas of the
// standard library, three to ten calls deep. For recordings with copied stacks, whose inlined frames cost other tools most.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "work.h"

namespace inlined {

struct Order {
  uint64_t customer = 0;
  uint64_t amount = 0;
  std::string item;
};

PROGRAM_FUNCTION std::vector<Order> MakeOrders(size_t count, uint64_t* random) {
  std::vector<Order> orders(count);
  for (Order& order : orders) {
    order.amount = NextPercent(random);
    order.customer = order.amount * NextPercent(random);
    order.item = "item " + std::to_string(order.customer % 97);
  }
  return orders;
}

PROGRAM_FUNCTION void SortOrders(std::vector<Order>* orders) {
  std::sort(orders->begin(), orders->end(), [](const Order& a, const Order& b) {
    return a.customer != b.customer ? a.customer < b.customer : a.item < b.item;
  });
  KEEP_FRAME();
}

PROGRAM_FUNCTION uint64_t SumByItem(const std::vector<Order>& orders) {
  std::map<std::string, uint64_t> sums;
  for (const Order& order : orders) sums[order.item] += order.amount;
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0},
                         [](uint64_t sum, const auto& entry) { return sum + entry.second; });
}

PROGRAM_FUNCTION uint64_t CountCustomers(const std::vector<Order>& orders) {
  std::unordered_map<uint64_t, uint64_t> counts;
  for (const Order& order : orders) ++counts[order.customer];
  return static_cast<uint64_t>(std::count_if(counts.begin(), counts.end(),
                                             [](const auto& entry) { return entry.second > 1; }));
}

}  // namespace inlined

int main(int argc, char** argv) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(NumberArgument(argc, argv, 1, 5));
  uint64_t random = 88172645463325252U;
  uint64_t rounds = 0;
  uint64_t sum = 0;
  for (; std::chrono::steady_clock::now() < end; ++rounds) {
    std::vector<inlined::Order> orders = inlined::MakeOrders(5000, &random);
    inlined::SortOrders(&orders);
    sum += inlined::SumByItem(orders) + inlined::CountCustomers(orders);
  }
  std::printf("{\"program\":\"inlined\",\"rounds\":%llu,\"sum\":%llu}\n",
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(sum));
  return 0;
}
