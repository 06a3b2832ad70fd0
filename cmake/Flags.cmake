# One INTERFACE target carries every flag; nothing is set globally.
add_library(ptarmigan_flags INTERFACE)
target_include_directories(ptarmigan_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(ptarmigan_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wformat=2 -Wimplicit-fallthrough -Wcast-align
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion;-Wsign-conversion;-Wold-style-cast;-Wnon-virtual-dtor;-Woverloaded-virtual>
  $<$<BOOL:${CMAKE_COMPILE_WARNING_AS_ERROR}>:-Werror>)
# Our own walker and `perf` both read these binaries' stacks: frame pointers cost about 1 %.
target_compile_options(ptarmigan_flags INTERFACE -fno-omit-frame-pointer)
if(PTARMIGAN_SANITIZE)
  target_compile_options(ptarmigan_flags INTERFACE -fsanitize=${PTARMIGAN_SANITIZE}
    -fno-sanitize-recover=all)
  target_link_options(ptarmigan_flags INTERFACE -fsanitize=${PTARMIGAN_SANITIZE})
endif()
if(PTARMIGAN_FUZZERS)
  # Coverage instrumentation everywhere; libFuzzer's main only in the fuzz targets.
  target_compile_options(ptarmigan_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize-recover=all)
  target_link_options(ptarmigan_flags INTERFACE -fsanitize=address,undefined)
endif()
