// Warnings and progress for people, on stderr. Results never go through here.
// Thread-safe: one line is one write.
#pragma once

#include <string>
#include <string_view>

namespace ptarmigan {

enum class LogLevel { kError, kWarning, kNotice, kDebug };

// Messages above `level` are dropped; default kNotice (kDebug with PTARMIGAN_DEBUG set).
void SetLogLevel(LogLevel level);
// One line "ptarmigan: <level>: <message>".
void Log(LogLevel level, std::string_view message);
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogNotice(std::string_view message) { Log(LogLevel::kNotice, message); }
inline void LogDebug(std::string_view message) { Log(LogLevel::kDebug, message); }

}  // namespace ptarmigan
