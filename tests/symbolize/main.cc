// The main function of this room's tests: table builds and debuginfod queries are children of the test binary.
#include <gtest/gtest.h>

#include "symbolize/symbolizer.h"

int main(int argc, char** argv) {
  int exit_code = 0;
  if (ptarmigan::RunSymbolizerChildIfAsked(argc, argv, &exit_code)) return exit_code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
