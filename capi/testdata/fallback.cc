// fallback DIRECTORY
//
// A C++ host goes on in memory where the file cannot be used, if it asks for that, and knows why.
#include <xpwc.hpp>

#include <string>

#include "host.h"

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  const std::string directory = argv[1], good = directory + "/cache", absent = directory + "/absent/cache";
  model m;
  model_make(&m, 1);
  REQUIRE(xpwc::Cache::open(absent).status().code() == XPWC_STATUS_SYSTEM_ERROR);
  xpwc::Options options;
  options.or_memory = true;
  for (const std::string& path : {absent, good}) {
    xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open(path, options);
    REQUIRE(cache.ok());
    require_right(&m, cache->handle());
    const xpwc::Status why = cache->unusable();
    REQUIRE(why.code() == (path == absent ? XPWC_STATUS_SYSTEM_ERROR : XPWC_STATUS_OK));
    REQUIRE((why.message().find(directory) != std::string::npos) == (path == absent));
  }
  model_free(&m);
  return 0;
}
