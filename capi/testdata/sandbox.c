// sandbox DIRECTORY
//
// A host that has an open file and no path: its name is gone, or the system lets nobody open anything.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

static char path[4096], other_path[4200];
static model m, other;

// Opens the cache in the file at path and closes the descriptor at once.
static xpwc_cache handed_over(const char* at, int flags) {
  const int fd = open(at, flags | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  xpwc_cache cache;
  OK(xpwc_open_fd(fd, NULL, &cache));
  REQUIRE(close(fd) == 0);
  return cache;
}

static void a_file_without_a_name_serves_what_is_in_it(void) {
  xpwc_cache cache = handed_over(path, O_RDONLY);
  REQUIRE(unlink(path) == 0);
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS && cache_stats(cache).misses == 0);
  require_right(&other, cache);
  REQUIRE(cache_stats(cache).private_read_only.entries == LAYERS);
  OK(xpwc_close(cache));
  REQUIRE(access(path, F_OK) != 0);
}

// An empty file whose name leads elsewhere is packed into.
static void a_file_without_a_name_is_packed_into(void) {
  xpwc_cache cache = handed_over(path, O_RDWR | O_CREAT | O_EXCL);
  REQUIRE(rename(path, other_path) == 0);
  require_right(&m, cache);
  OK(xpwc_cache_save(cache));
  REQUIRE(cache_stats(cache).packed.entries == LAYERS && cache_stats(cache).generation == 1);
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_cache_compact(cache)); // there is nowhere to write it anew
  OK(xpwc_close(cache));
  REQUIRE(access(path, F_OK) != 0);

  // It is a cache file like any other.
  xpwc_options strict;
  memset(&strict, 0, sizeof(strict));
  strict.struct_size = sizeof(strict);
  strict.flags = XPWC_OPEN_STRICT;
  OK(xpwc_open(other_path, &strict, &cache));
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS);
  OK(xpwc_close(cache));
}

static void what_cannot_be_opened(void) {
  xpwc_cache cache = {77};
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open_fd(-1, NULL, &cache));
  REQUIRE(cache.id == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open_fd(0, NULL, NULL));
  xpwc_options options;
  memset(&options, 0, sizeof(options));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open_fd(0, &options, &cache));
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_open_fd(12345, NULL, &cache));
  REQUIRE(strstr(xpwc_last_error(), "12345") != NULL);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  FAILS(XPWC_STATUS_UNSAFE_FILE, xpwc_open_fd(ends[0], NULL, &cache));
  REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
  snprintf(path + strlen(path), sizeof(path) - strlen(path), ".txt");
  FILE* f = fopen(path, "w");
  REQUIRE(f != NULL);
  for (int i = 0; i < 1000; i++) {
    fprintf(f, "These are somebody's notes.\n");
  }
  REQUIRE(fclose(f) == 0);
  const int fd = open(path, O_RDWR);
  FAILS(XPWC_STATUS_NOT_CACHE, xpwc_open_fd(fd, NULL, &cache));
  REQUIRE(fcntl(fd, F_GETFD) >= 0); // it is the host's
  REQUIRE(close(fd) == 0);
}

// From now on no thread of this process opens, creates, renames or removes a file.
static void forbid_paths(void) {
  static const unsigned forbidden[] = {
#ifdef SYS_open
      SYS_open, SYS_creat, SYS_rename, SYS_unlink,
#endif
      SYS_openat, SYS_openat2, SYS_renameat, SYS_renameat2, SYS_unlinkat};
  enum { COUNT = sizeof(forbidden) / sizeof(*forbidden) };
  struct sock_filter filter[2 * COUNT + 2];
  size_t n = 0;
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < COUNT; i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {(unsigned short)n, filter};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
  REQUIRE(open(other_path, O_RDONLY) < 0 && errno == EACCES);
}

static void a_process_that_may_open_nothing(int to_read, int to_write) {
  xpwc_cache cache;
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_open(other_path, NULL, &cache));
  const int descriptors[] = {to_read, to_write}; // the second cannot be opened once more for its lock, so it is only read
  for (int i = 0; i < 2; i++) {
    OK(xpwc_open_fd(descriptors[i], NULL, &cache));
    REQUIRE(close(descriptors[i]) == 0);
    require_right(&m, cache);
    REQUIRE(cache_stats(cache).hits.entries == LAYERS && cache_stats(cache).misses == 0);
    require_right(&other, cache);
    REQUIRE(cache_stats(cache).private_read_only.entries == LAYERS);
    OK(xpwc_cache_save(cache));
    OK(xpwc_close(cache));
  }
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  snprintf(other_path, sizeof(other_path), "%s.elsewhere", path);
  model_make(&m, 1);
  model_make(&other, 2);
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
  a_file_without_a_name_serves_what_is_in_it();
  a_file_without_a_name_is_packed_into();
  what_cannot_be_opened();
  const int to_read = open(other_path, O_RDONLY), to_write = open(other_path, O_RDWR);
  REQUIRE(to_read >= 0 && to_write >= 0);
  forbid_paths();
  a_process_that_may_open_nothing(to_read, to_write);
  model_free(&m);
  model_free(&other);
  return 0;
}
