// reads FILE
//
// Opens a cache file with the reader, and prints how many entries it has, or why it cannot be opened.
#include <stdio.h>

#include <xpwc_reader.h>

int main(int argc, char** argv) {
  xpwc_reader* reader = NULL;
  const xpwc_status status = xpwc_reader_open(argc > 1 ? argv[1] : "", NULL, &reader);
  if (status != XPWC_STATUS_OK) {
    char text[512];
    xpwc_reader_error(status, text, sizeof(text));
    puts(text);
    return 0;
  }
  xpwc_reader_stats stats;
  xpwc_reader_get_stats(reader, &stats);
  printf("%lu entries\n", (unsigned long)stats.entries);
  xpwc_reader_close(reader);
  return 0;
}
