// A table of tab-separated values with a header line, as the truth files beside recordings and the `events` view have
// it: rows of cells by column name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan {

class TruthTable {
 public:
  explicit TruthTable(std::string_view text) {
    while (!text.empty()) {
      std::vector<std::string> cells = Cells(NextLine(&text));
      if (columns_.empty()) {
        for (size_t i = 0; i < cells.size(); ++i) index_[cells[i]] = i;
        columns_ = std::move(cells);
      } else {
        cells.resize(columns_.size());
        rows_.push_back(std::move(cells));
      }
    }
  }

  size_t size() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  bool Has(std::string_view column) const { return index_.find(column) != index_.end(); }
  // Empty for a column that the table does not have.
  std::string_view Cell(size_t row, std::string_view column) const {
    const auto found = index_.find(column);
    return found == index_.end() ? std::string_view() : rows_[row][found->second];
  }

 private:
  static std::string_view NextLine(std::string_view* text) {
    const size_t end = text->find('\n');
    const std::string_view line = text->substr(0, end);
    text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
    return line;
  }
  static std::vector<std::string> Cells(std::string_view line) {
    std::vector<std::string> cells;
    for (;;) {
      const size_t end = line.find('\t');
      cells.emplace_back(line.substr(0, end));
      if (end == std::string_view::npos) return cells;
      line.remove_prefix(end + 1);
    }
  }

  std::vector<std::string> columns_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ptarmigan
