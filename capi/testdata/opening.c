// opening PATH
//
// Opens a cache in each way that there is. Prints the statuses, and the last error. C99 and C++11.
#include <fcntl.h>

#include "host.h"

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  xpwc_cache cache;
  puts(xpwc_status_string(xpwc_open(argv[1], NULL, &cache)));
  puts(xpwc_status_string(xpwc_open("", NULL, &cache)));
  const int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  puts(xpwc_status_string(xpwc_open_fd(file, NULL, &cache)));
  puts(xpwc_last_error());
  return 0;
}
