// fork DIRECTORY
//
// A child of fork that only executes a runtime gets right answers, and its parent goes on, also if another thread is
// inside the library at the time of the fork.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static xpwc_cache cache;
static float want[WIDTH];

static int lock_step[2], go_on[2]; // pipes: one is inside the library, and may leave it

static xpwc_status get_slowly(void* context, const char* name, xpwc_tensor* to) {
  char byte = 0;
  if (strcmp(name, "w1") == 0) {
    REQUIRE(write(lock_step[1], &byte, 1) == 1);
    REQUIRE(read(go_on[0], &byte, 1) == 1);
  }
  return model_get(context, name, to);
}

static void* create_slowly(void* context) {
  model* m = (model*)context;
  xpwc_data_map map = model_callbacks(m);
  map.get = get_slowly;
  opened o = model_open(m, cache, &map);
  opened_close(&o);
  return NULL;
}

static void execute_in_a_child(xnn_runtime_t runtime) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    float got[WIDTH];
    for (int i = 0; i < 100; i++) {
      runtime_infer(runtime, got);
      if (memcmp(want, got, sizeof(got)) != 0) {
        _exit(3);
      }
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model m, other;
  model_make(&m, 1);
  model_make(&other, 2);
  model_infer_plain(&m, want);
  for (int warm = 0; warm < 2; warm++) {
    OK(xpwc_open(path, NULL, &cache));
    const xpwc_data_map map = model_callbacks(&m);
    opened o = model_open(&m, cache, &map);
    execute_in_a_child(o.runtime); // what was packed may not be on the disk yet
    OK(xpwc_cache_save(cache));
    execute_in_a_child(o.runtime);

    REQUIRE(pipe(lock_step) == 0 && pipe(go_on) == 0);
    pthread_t thread;
    char byte = 0;
    REQUIRE(pthread_create(&thread, NULL, create_slowly, &other) == 0);
    REQUIRE(read(lock_step[0], &byte, 1) == 1);
    execute_in_a_child(o.runtime);
    REQUIRE(write(go_on[1], &byte, 1) == 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 2; i++) {
      REQUIRE(close(lock_step[i]) == 0 && close(go_on[i]) == 0);
    }

    float got[WIDTH];
    runtime_infer(o.runtime, got);
    require_same_output(want, got);
    opened_close(&o);
    require_right(&m, cache);
    require_right(&other, cache);
    OK(xpwc_close(cache));
  }
  model_free(&m);
  model_free(&other);
  return 0;
}
