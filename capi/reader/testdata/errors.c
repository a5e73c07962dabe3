// errors FILE
//
// Opens a sound file while the system cannot read it, at each of its reads. Linked with --wrap=pread.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xpwc_reader.h"

#define REQUIRE(condition)                                                       \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

ssize_t __real_pread(int file, void* buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int file, void* buffer, size_t size, off_t offset);

static long reads_left; // before one that fails
static int failure;     // its errno; 0 for a read of few bytes

ssize_t __wrap_pread(int file, void* buffer, size_t size, off_t offset) {
  if (reads_left-- == 0) {
    if (failure != 0) {
      errno = failure;
      return -1;
    }
    size = size < 3 ? size : 3;
  }
  return __real_pread(file, buffer, size, offset);
}

static xpwc_status open_failing(const char* path, long at, int with, xpwc_reader** reader) {
  reads_left = at;
  failure = with;
  errno = 0;
  return xpwc_reader_open(path, NULL, reader);
}

static void require_error(xpwc_status status, int error, xpwc_reader* const* reader) {
  const int got = errno;
  REQUIRE(status == XPWC_STATUS_SYSTEM_ERROR && got == error && *reader == NULL);
  char text[256], cut[8];
  errno = error;
  xpwc_reader_error(status, text, sizeof(text));
  REQUIRE(strstr(text, "XPWC_STATUS_SYSTEM_ERROR") == text && strstr(text, strerror(error)) != NULL);
  xpwc_reader_error(status, cut, sizeof(cut));
  REQUIRE(strcmp(cut, "XPWC_ST") == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  xpwc_reader* reader = NULL;
  long reads = 0;
  for (xpwc_status status; (status = open_failing(argv[1], reads, EIO, &reader)) != XPWC_STATUS_OK; reads++) {
    require_error(status, EIO, &reader);
  }
  xpwc_reader_close(reader);
  REQUIRE(reads >= 4); // of the header, and of the index

  for (long at = 0; at < reads; at++) {
    const int harmless[] = {0, EINTR};
    for (int i = 0; i < 2; i++) {
      REQUIRE(open_failing(argv[1], at, harmless[i], &reader) == XPWC_STATUS_OK);
      xpwc_reader_close(reader);
    }
  }

  reads_left = -1;
  int file = open(argv[1], O_WRONLY);
  REQUIRE(file >= 0);
  require_error(xpwc_reader_open_fd(file, 0, 0, NULL, &reader), EBADF, &reader);
  close(file);
  require_error(xpwc_reader_open_fd(file, 0, 0, NULL, &reader), EBADF, &reader);
  char missing[4096];
  snprintf(missing, sizeof(missing), "%s.missing", argv[1]);
  require_error(xpwc_reader_open(missing, NULL, &reader), ENOENT, &reader);

  // What the file itself lacks is damage.
  REQUIRE(truncate(argv[1], 5000) == 0);
  REQUIRE(xpwc_reader_open(argv[1], NULL, &reader) == XPWC_STATUS_DAMAGED);
  REQUIRE(strcmp(xpwc_reader_status_string(XPWC_STATUS_DAMAGED), "XPWC_STATUS_DAMAGED") == 0);
  return 0;
}
