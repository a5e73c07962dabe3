// ended DIRECTORY BALLAST
//
// A flush fails, because writing BALLAST until there is no space leaves the disk unable to take what was written. A
// child of fork, whose runtime reads what was not committed, computes right answers all the same, whatever others pack.
//
// ended pack DIRECTORY is another process that packs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static void fill_up(const char* ballast) {
  static const char zeros[1 << 16];
  const int f = open(ballast, O_WRONLY | O_CREAT, 0600);
  REQUIRE(f >= 0);
  while (write(f, zeros, sizeof(zeros)) == sizeof(zeros)) {
  }
  REQUIRE(close(f) == 0);
}

static void sync_disk(const char* path) {
  const int f = open(path, O_RDONLY);
  REQUIRE(f >= 0 && syncfs(f) == 0 && close(f) == 0);
}

static void require_success(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void pack(int seed, const char* path) {
  model m;
  xpwc_cache cache;
  model_make(&m, seed);
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
  model_free(&m);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  const bool packs = strcmp(argv[1], "pack") == 0;
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[packs ? 2 : 1]);
  if (packs) {
    pack(3, path);
    return 0;
  }
  pack(1, path);
  sync_disk(path);
  fill_up(argv[2]);

  model m;
  float want[WIDTH];
  model_make(&m, 2);
  model_infer_plain(&m, want);
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  const xpwc_data_map map = model_callbacks(&m);
  opened o = model_open(&m, cache, &map);
  int go_on[2];
  char byte = 0;
  REQUIRE(pipe(go_on) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    float got[WIDTH];
    if (read(go_on[0], &byte, 1) != 1) {
      _exit(2);
    }
    runtime_infer(o.runtime, got);
    _exit(memcmp(want, got, sizeof(got)) == 0 ? 0 : 3);
  }
  REQUIRE(xpwc_cache_save(cache) != XPWC_STATUS_OK);
  const xpwc_status checked = xpwc_session_check(o.session);
  opened_close(&o);

  REQUIRE(unlink(argv[2]) == 0);
  const pid_t other = fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    execl(argv[0], argv[0], "pack", argv[1], (char*)NULL);
    _exit(2);
  }
  require_success(other);
  REQUIRE(write(go_on[1], &byte, 1) == 1);
  require_success(child);
  REQUIRE(checked == XPWC_STATUS_LOST);
  OK(xpwc_close(cache));
  model_free(&m);
  return 0;
}
