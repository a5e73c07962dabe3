// version
//
// Prints the library's version, which is that of the header.
#include "host.h"

#if XPWC_VERSION_NUMBER < 600
#error "the preprocessor can compare versions"
#endif

int main(void) {
  REQUIRE(strcmp(xpwc_version(), XPWC_VERSION) == 0);
  REQUIRE(xpwc_version_number() == XPWC_VERSION_NUMBER);
  printf("%s %u\n", xpwc_version(), (unsigned)xpwc_version_number());
  return 0;
}
