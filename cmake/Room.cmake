# ptarmigan_room(NAME <room>
#                SOURCES <files>...          relative to <room>/
#                DEPENDS <rooms>...          rooms whose headers it includes
#                LIBRARIES <targets>...      third-party, PRIVATE: not visible to other rooms
#                TESTS <files>...            relative to tests/<room>/, one binary per room
#                TEST_LIBRARIES <targets>... )
#
# Declares library ptarmigan_<room> (alias ptarmigan::<room>) and test binary <room>_test. A dependency
# that the table below (docs/architecture.md, "Rooms") does not allow stops the configure step.

set(PTARMIGAN_ALLOW_base "")
set(PTARMIGAN_ALLOW_model base)
set(PTARMIGAN_ALLOW_proto "")
set(PTARMIGAN_ALLOW_elf base model)
set(PTARMIGAN_ALLOW_hw base model)
set(PTARMIGAN_ALLOW_decode base model)
set(PTARMIGAN_ALLOW_unwind base model elf)
set(PTARMIGAN_ALLOW_symbolize base model elf)
set(PTARMIGAN_ALLOW_export base model proto)
set(PTARMIGAN_ALLOW_pipeline base model elf decode unwind symbolize export)
set(PTARMIGAN_ALLOW_query base model)
set(PTARMIGAN_ALLOW_web "")
set(PTARMIGAN_ALLOW_cli base model proto elf hw decode unwind symbolize export pipeline query web)

function(ptarmigan_room)
  cmake_parse_arguments(R "" "NAME" "SOURCES;DEPENDS;LIBRARIES;TESTS;TEST_LIBRARIES" ${ARGN})
  if(NOT DEFINED PTARMIGAN_ALLOW_${R_NAME})
    message(FATAL_ERROR "room '${R_NAME}' is not in the table of cmake/Room.cmake")
  endif()
  foreach(dependency ${R_DEPENDS})
    if(NOT dependency IN_LIST PTARMIGAN_ALLOW_${R_NAME})
      message(FATAL_ERROR "room '${R_NAME}' may not depend on '${dependency}' (docs/architecture.md)")
    endif()
  endforeach()

  add_library(ptarmigan_${R_NAME} STATIC ${R_SOURCES})
  add_library(ptarmigan::${R_NAME} ALIAS ptarmigan_${R_NAME})
  target_link_libraries(ptarmigan_${R_NAME} PUBLIC ptarmigan_flags PRIVATE ${R_LIBRARIES})
  if(PTARMIGAN_SANITIZE AND R_NAME STREQUAL "cli")
    # Command lines are not hot, and optimizing CLI11's templates with every check in them takes a fifth of the build.
    target_compile_options(ptarmigan_${R_NAME} PRIVATE -O0)
  endif()
  foreach(dependency ${R_DEPENDS})
    target_link_libraries(ptarmigan_${R_NAME} PUBLIC ptarmigan_${dependency})
  endforeach()

  if(R_TESTS AND PTARMIGAN_TESTS)
    list(TRANSFORM R_TESTS PREPEND ${PROJECT_SOURCE_DIR}/tests/${R_NAME}/)
    ptarmigan_test(${R_NAME}_test SOURCES ${R_TESTS}
      LIBRARIES ptarmigan_${R_NAME} ${R_LIBRARIES} ${R_TEST_LIBRARIES})
  endif()
endfunction()

# Test code is half of what is compiled. Its headers are precompiled once (GCC only: what clang checks must stand on
# its own includes), they are not optimized (which halves the time, and keeps GCC 12 from inventing array bounds in
# precompiled headers), and UBSan, which triples the time of GoogleTest's macros, watches the product's code alone.
function(ptarmigan_cheap_to_compile name)
  set(options "")
  if(PTARMIGAN_SANITIZE MATCHES "undefined")
    list(APPEND options -fno-sanitize=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND options -O0 -fpch-preprocess)
    if(NOT TARGET ptarmigan_test_pch)
      if(NOT EXISTS ${CMAKE_BINARY_DIR}/test_pch.cc)  # a new time stamp would rebuild every test
        file(WRITE ${CMAKE_BINARY_DIR}/test_pch.cc "int main() { return 0; }\n")
      endif()
      add_executable(ptarmigan_test_pch ${CMAKE_BINARY_DIR}/test_pch.cc)
      target_link_libraries(ptarmigan_test_pch PRIVATE ptarmigan_flags GTest::gmock fmt::fmt)
      target_compile_options(ptarmigan_test_pch PRIVATE ${options})
      target_precompile_headers(ptarmigan_test_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/core.h>
        <algorithm> <functional> <map> <memory> <string> <unordered_map> <vector>)
      set_target_properties(ptarmigan_test_pch PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endif()
    target_precompile_headers(${name} REUSE_FROM ptarmigan_test_pch)
    set_target_properties(${name} PROPERTIES PCH_WARN_INVALID OFF)
  endif()
  target_compile_options(${name} PRIVATE ${options})
endfunction()

# ptarmigan_test(<binary> SOURCES <files>... LIBRARIES <targets>...): a gtest binary whose tests ctest
# discovers one by one. PTARMIGAN_DATA names the folder of recordings; tests that need it skip without it.
function(ptarmigan_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBRARIES" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ptarmigan_test_support ${T_LIBRARIES} GTest::gmock)
  ptarmigan_cheap_to_compile(${name})
  target_compile_definitions(${name} PRIVATE
    PTARMIGAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" PTARMIGAN_BUILD_DIR="${PROJECT_BINARY_DIR}")
  include(GoogleTest)
  gtest_discover_tests(${name} TEST_PREFIX ${name}: DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 300 LABELS "${name}")
endfunction()

# ptarmigan_fuzzer(<name> LIBRARIES <targets>...): tests/fuzz/<name>.cc defines LLVMFuzzerTestOneInput. Always it becomes
# a plain test that runs every file of tests/fuzz/corpus/<name>/. Under PTARMIGAN_FUZZERS it is a libFuzzer binary
# instead, and target `fuzz` runs each of them for PTARMIGAN_FUZZ_SECONDS from that corpus; findings stay in
# fuzz-findings/ of the build folder.
set(PTARMIGAN_FUZZ_SECONDS 60 CACHE STRING "How long target fuzz runs each fuzzer")
function(ptarmigan_fuzzer name)
  cmake_parse_arguments(F "" "" "LIBRARIES" ${ARGN})
  set(source ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}.cc)
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(PTARMIGAN_FUZZERS)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE ${F_LIBRARIES})
    set(work ${CMAKE_BINARY_DIR}/fuzz-work/${name})
    set(findings ${CMAKE_BINARY_DIR}/fuzz-findings)
    file(MAKE_DIRECTORY ${work} ${findings})
    add_custom_target(fuzz_${name}
      COMMAND ${name} -max_total_time=${PTARMIGAN_FUZZ_SECONDS} -timeout=20 -rss_limit_mb=2048
        -print_final_stats=1 -artifact_prefix=${findings}/${name}- ${work} ${corpus}
      VERBATIM)
    if(NOT TARGET fuzz)
      add_custom_target(fuzz)
    endif()
    add_dependencies(fuzz fuzz_${name})
  elseif(PTARMIGAN_TESTS)
    add_executable(${name} ${source} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_main.cc)
    target_link_libraries(${name} PRIVATE ${F_LIBRARIES})
    add_test(NAME ${name}:corpus COMMAND ${name} ${corpus})
    set_tests_properties(${name}:corpus PROPERTIES TIMEOUT 120 LABELS fuzz)
  endif()
endfunction()
