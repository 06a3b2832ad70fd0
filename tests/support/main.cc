// The main function of every test binary.
#include <gtest/gtest.h>

namespace ptarmigan {

// Rooms that run themselves as a confined child need a hook in main; null in binaries without that room.
[[gnu::weak]] bool RunSymbolizerChildIfAsked(int argc, char** argv, int* exit_code);
[[gnu::weak]] bool RunSymbolWorkerIfAsked(int argc, char** argv, int* exit_code);

}  // namespace ptarmigan

// OpenCSD 1.3.3 forgets 32 bytes of each decode tree (ocsd_dt_set_gen_elem_outfn).
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libopencsd"; }

int main(int argc, char** argv) {
  int exit_code = 0;
  for (const auto run_if_asked :
       {&ptarmigan::RunSymbolizerChildIfAsked, &ptarmigan::RunSymbolWorkerIfAsked}) {
    if (run_if_asked != nullptr && run_if_asked(argc, argv, &exit_code)) return exit_code;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
