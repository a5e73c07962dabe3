// What a user of ExecuTorch with xpwc_executorch.hpp relies on. One scenario a process:
//
//   scenarios NAME DIRECTORY
#include "scenarios.hpp"

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  executorch::runtime::runtime_init();
  REQUIRE(xnn_initialize(nullptr) == xnn_status_success);
  for (const Scenarios& scenarios :
       {method_scenarios(), constant_scenarios(), recalibrated_scenarios(), option_scenarios(), host_scenarios()}) {
    if (auto scenario = scenarios.find(argv[1]); scenario != scenarios.end()) {
      scenario->second(argv[2]);
      return 0;
    }
  }
  require_failed(__FILE__, __LINE__, "there is such a scenario");
}
