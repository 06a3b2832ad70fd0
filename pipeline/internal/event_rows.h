// EventRows: one kind of row of the `events` view. Takes all events, appends lines of tab-separated cells to text();
// whoever drives it takes the text away from time to time.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "model/event_source.h"
#include "model/loss_ledger.h"

namespace ptarmigan::internal {

class EventRows : public EventSink {
 public:
  // Names of the columns, with tabs between them and without a line end.
  virtual std::string_view Header() const = 0;
  // After the last event: rows that had to wait.
  virtual void Finish() {}
  // What these rows lost beyond what the source did. After Finish.
  virtual void AddLosses(LossLedger*) const {}

  std::string& text() { return text_; }

 protected:
  template <typename... Args>
  void Append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  // A cell and the tab after it; AppendEnd turns the last tab into the line's end.
  template <typename... Args>
  void AppendCell(fmt::format_string<Args...> format, Args&&... args) {
    Append(format, std::forward<Args>(args)...);
    text_ += '\t';
  }
  void AppendText(std::string_view cell) {
    text_ += cell;
    text_ += '\t';
  }
  void AppendEmpty() { text_ += '\t'; }
  void AppendEnd() { text_.back() = '\n'; }

  std::string text_;
};

}  // namespace ptarmigan::internal
