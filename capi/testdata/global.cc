// global DIRECTORY
//
// A static initialiser of the host opens a cache, and a static destructor closes it.
#include <unistd.h>

#include <xpwc.hpp>

#include "host.h"

static xpwc::Cache cache = *xpwc::Cache::open("");

int main(int argc, char**) {
  REQUIRE(argc == 2);
  model m;
  model_make(&m, 1);
  require_right(&m, cache.handle());
  model_free(&m);
  return 0;
}
