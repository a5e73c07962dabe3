// Measures the host of examples/host: see README.md there.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench.h"
#include "experiments.h"
#include "starts.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string command = arguments.empty() ? "" : arguments[0];
  Status status;
  if (command == "demo" && arguments.size() == 2) {
    status = demo(arguments[1]);
  } else if (command == "bench" && arguments.size() == 2) {
    status = bench(arguments[1]);
  } else if (command == "starts" && (arguments.size() == 2 || arguments.size() == 3)) {
    status = starts(arguments[1], arguments.size() == 3 ? std::atoi(arguments[2].c_str()) : 100);
  } else if (command == "start") {
    status = start({arguments.begin() + 1, arguments.end()});
  } else if (command == "measure") {
    status = measure({arguments.begin() + 1, arguments.end()});
  } else {
    std::fprintf(
        stderr,
        "usage: measure demo DIR    two experiments, in memory and time; needs 1.3 GB in DIR while it runs\n"
        "       measure bench DIR   what the cache's calls cost\n"
        "       measure starts DIR [N]\n"
        "                        what a start costs, of N processes; needs 210 MB in DIR while it runs\n");
    return 2;
  }
  if (!status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "measure: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
