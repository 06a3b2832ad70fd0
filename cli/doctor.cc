#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/str_format.h"
#include "cli/common_options.h"
#include "hw/capabilities.h"

namespace ptarmigan::cli {
namespace {
