// cost [DIRECTORY SEALED]
//
// Prints what the process has, a line for each stage: the stage, threads, descriptors, kilobytes of address space and of
// private memory, and the microseconds that the stage took. Without a directory it ends at once. Compiled with
// -DWITHOUT it is the same program without the library, with -DREADER with the reader in its place, which opens the file
// SEALED.
#define _GNU_SOURCE
#include <dirent.h>
#include <time.h>

#include "host.h"
#ifdef READER
#include <fcntl.h>
#include <unistd.h>

#include <xpwc_reader.h>
#endif

static double now(void) {
  struct timespec t;
  REQUIRE(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int count(const char* directory) {
  DIR* d = opendir(directory);
  REQUIRE(d != NULL);
  int n = 0;
  for (const struct dirent* e = readdir(d); e != NULL; e = readdir(d)) {
    n += e->d_name[0] != '.';
  }
  REQUIRE(closedir(d) == 0);
  return n;
}

static long status_of(const char* name) {
  FILE* f = fopen("/proc/self/status", "r");
  REQUIRE(f != NULL);
  char line[256];
  long value = 0;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) {
      value = atol(line + strlen(name));
    }
  }
  REQUIRE(fclose(f) == 0);
  return value;
}

static double began;

static void report(const char* stage) {
  const double took = now() - began;
  printf(
      "%s %d %d %ld %ld %.1f\n", stage, count("/proc/self/task"), count("/proc/self/fd") - 1, status_of("VmSize:"),
      status_of("RssAnon:"), took);
  began = now();
}

int main(int argc, char** argv) {
  if (argc < 3) {
    return 0;
  }
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  XNN(xnn_initialize(NULL));
  began = now();
  report("linked");
#ifdef READER
  char text[33];
  xpwc_reader_digest("", 0, text);
  report("called");
  const int file = open(argv[2], O_RDONLY);
  xpwc_reader* reader;
  REQUIRE(xpwc_reader_open_fd(file, 0, 0, NULL, &reader) == XPWC_STATUS_OK && close(file) == 0);
  report("opened");
  for (int i = 0; i < 1000; i++) {
    xpwc_reader_digest("", 0, text);
  }
  report("thousand");
  xpwc_reader_close(reader);
#elif !defined(WITHOUT)
  uint8_t digest[16];
  OK(xpwc_digest("", 0, digest));
  report("called");
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  report("opened");
  for (int i = 0; i < 1000; i++) {
    REQUIRE(xpwc_digest("", 0, digest) == XPWC_STATUS_OK);
  }
  report("thousand");
  OK(xpwc_close(cache));
#endif
  return 0;
}
