// xnnpack
//
// Prints which XNNPACK the library was built for.
#include "host.h"

int main(void) {
  puts(xpwc_xnnpack());
  return 0;
}
