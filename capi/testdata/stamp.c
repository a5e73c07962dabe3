// stamp DIRECTORY
//
// The stamp of a file stays while the file does, and changes with it.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static char path[4096];

static void stamp_of_path(char stamp[XPWC_FILE_STAMP_SIZE]) {
  const int fd = open(path, O_RDONLY);
  REQUIRE(fd >= 0);
  xpwc_file_state state;
  int changed = 1;
  OK(xpwc_file_look(fd, &state));
  OK(xpwc_file_changed(fd, &state, &changed)); // which waits until another change would show
  REQUIRE(!changed);
  memset(stamp, 0xaa, XPWC_FILE_STAMP_SIZE);
  OK(xpwc_file_stamp(fd, stamp, XPWC_FILE_STAMP_SIZE));
  REQUIRE(memchr(stamp, '\0', XPWC_FILE_STAMP_SIZE) != NULL && stamp[0] != '\0');
  REQUIRE(close(fd) == 0);
}

// A file that was written a moment ago has no stamp: it could be written to again at the same time.
static void what_was_just_written_has_none(void) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd >= 0);
  char stamp[XPWC_FILE_STAMP_SIZE];
  xpwc_file_state state;
  int changed = 1;
  bool none = false;
  for (int i = 0; i < 1000 && !none; i++) { // unless this process was kept from running just here
    REQUIRE(pwrite(fd, "x", 1, 0) == 1);
    OK(xpwc_file_stamp(fd, stamp, sizeof(stamp)));
    none = stamp[0] == '\0';
  }
  REQUIRE(none);
  OK(xpwc_file_look(fd, &state));
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(!changed);
  REQUIRE(pwrite(fd, "y", 1, 0) == 1);
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(changed);
  OK(xpwc_file_look(fd, &state));
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(!changed);
  REQUIRE(unlink(path) == 0);
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(!changed); // its content did not
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_look(fd, NULL));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_changed(fd, NULL, &changed));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_changed(fd, &state, NULL));
  REQUIRE(close(fd) == 0);
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_file_look(fd, &state));
  changed = 1;
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_file_changed(fd, &state, &changed));
  REQUIRE(changed == 0);
}

// What somebody may be writing to has no stamp, since times do not show when a write ends.
static void what_can_be_written_to_has_none(void) {
#ifdef __linux__
  const int fd = open(path, O_RDONLY), writer = open(path, O_WRONLY);
  REQUIRE(fd >= 0 && writer >= 0);
  char stamp[XPWC_FILE_STAMP_SIZE] = "x";
  OK(xpwc_file_stamp(fd, stamp, sizeof(stamp)));
  REQUIRE(stamp[0] == '\0');
  xpwc_file_state state;
  int changed = 1;
  OK(xpwc_file_look(fd, &state));
  REQUIRE(state.opaque[6] != 0 || state.opaque[7] != 0);
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(!changed);
  state.opaque[6] ^= 1; // as when a write that had begun goes on
  OK(xpwc_file_changed(fd, &state, &changed));
  REQUIRE(changed);
  REQUIRE(close(writer) == 0 && close(fd) == 0);
#endif
}

static void write_file(const char* text) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/file", argv[1]);
  char stamps[6][XPWC_FILE_STAMP_SIZE], again[XPWC_FILE_STAMP_SIZE];
  what_was_just_written_has_none();
  write_file("content");
  stamp_of_path(stamps[0]);
  stamp_of_path(again);
  REQUIRE(strcmp(stamps[0], again) == 0);
  what_can_be_written_to_has_none();
  stamp_of_path(again);
  REQUIRE(strcmp(stamps[0], again) == 0);

  write_file("longer content");
  stamp_of_path(stamps[1]);
  // The same size, and a time of modification that was set back: the time of change differs.
  struct stat status;
  REQUIRE(stat(path, &status) == 0);
  const struct timespec earlier[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 4}};
  REQUIRE(utimensat(AT_FDCWD, path, earlier, 0) == 0);
  stamp_of_path(stamps[2]);
  const struct timespec later[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 5}};
  REQUIRE(utimensat(AT_FDCWD, path, later, 0) == 0);
  stamp_of_path(stamps[3]); // one nanosecond
  REQUIRE(unlink(path) == 0);
  char other[sizeof(path) + 8];
  snprintf(other, sizeof(other), "%s.other", path);
  FILE* f = fopen(other, "w");
  REQUIRE(f != NULL && fclose(f) == 0); // takes the inode, if it is given out again at once
  write_file("content");
  stamp_of_path(stamps[4]);
  REQUIRE(rename(other, path) == 0);
  stamp_of_path(stamps[5]);
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < i; j++) {
      REQUIRE(strcmp(stamps[i], stamps[j]) != 0);
    }
  }

  // The largest numbers there are must fit, so a capacity that is just enough for this one must do, and one less not.
  const int fd = open(path, O_RDONLY);
  REQUIRE(fd >= 0);
  const size_t length = strlen(stamps[5]);
  struct {
    char stamp[XPWC_FILE_STAMP_SIZE];
    char behind[8];
  } s;
  for (size_t capacity = 1; capacity <= XPWC_FILE_STAMP_SIZE; capacity++) {
    memset(&s, 0xaa, sizeof(s));
    if (capacity > length) {
      OK(xpwc_file_stamp(fd, s.stamp, capacity));
      REQUIRE(strcmp(s.stamp, stamps[5]) == 0);
    } else {
      FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_stamp(fd, s.stamp, capacity));
      REQUIRE(s.stamp[0] == '\0');
    }
    for (size_t i = capacity; i < sizeof(s); i++) {
      REQUIRE(((const uint8_t*)&s)[i] == 0xaa);
    }
  }
  REQUIRE(close(fd) == 0);
  REQUIRE(fcntl(0, F_GETFD) >= 0); // and the descriptor was the host's all the time
  return 0;
}
