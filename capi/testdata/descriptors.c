// descriptors DIRECTORY CALL LEFT
//
// The host has used up its file descriptors but for some when it comes to a call, and has them back after the last one.
// Whatever the library then wants to open is an error or goes into private memory, outputs are right, and nothing ends
// the process.
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host.h"

enum { OPEN, BEGIN, LOAD, PACK, FINALIZE, SAVE, CLOSE, CALLS };

static int used_up_at, left;
static int taken[64], taken_count;

static void use_up(void) {
  struct rlimit limit;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = sizeof(taken) / sizeof(*taken); // of which some are in use
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (int d = open("/", O_RDONLY); d >= 0; d = open("/", O_RDONLY)) {
    taken[taken_count++] = d;
  }
  for (int i = 0; i < left; i++) {
    REQUIRE(close(taken[--taken_count]) == 0);
  }
}

static void give_back(void) {
  while (taken_count > 0) {
    REQUIRE(close(taken[--taken_count]) == 0);
  }
}

static void come_to(int call) {
  if (call == used_up_at) {
    use_up();
  }
}

// A call succeeds, or fails for want of descriptors.
static bool succeeds(xpwc_status status) {
  if (status == XPWC_STATUS_OK) {
    return true;
  }
  REQUIRE(status == XPWC_STATUS_SYSTEM_ERROR);
  REQUIRE(strstr(xpwc_last_error(), "too many open files") != NULL);
  return false;
}

static void run(model* m, const char* path) {
  float want[WIDTH], got[WIDTH];
  model_infer_plain(m, want);
  xpwc_cache cache;
  come_to(OPEN);
  bool opens = succeeds(xpwc_open(path, NULL, &cache));
  REQUIRE(used_up_at != OPEN || opens == (left > 2)); // the library needs two for all files, and one for this one
  if (!opens) {
    give_back();
    OK(xpwc_open(path, NULL, &cache));
  }

  const xpwc_data_map map = model_callbacks(m);
  xpwc_session session;
  come_to(BEGIN);
  OK(xpwc_session_begin(cache, &map, &session));
  const void* data[TENSORS];
  come_to(LOAD);
  model_load(m, session, data);
  struct xnn_weights_cache_provider* provider = NULL;
  OK(xpwc_session_provider(session, &provider));
  come_to(PACK);
  xnn_runtime_t runtime = runtime_create(data, provider);
  come_to(FINALIZE);
  OK(xpwc_session_finalize(session));
  runtime_infer(runtime, got);
  require_same_output(want, got);
  come_to(SAVE);
  (void)succeeds(xpwc_cache_save(cache));
  XNN(xnn_delete_runtime(runtime));
  OK(xpwc_session_end(session));
  come_to(CLOSE);
  (void)succeeds(xpwc_close(cache));
  give_back();
}

int main(int argc, char** argv) {
  REQUIRE(argc == 4);
  used_up_at = atoi(argv[2]);
  left = atoi(argv[3]);
  REQUIRE(used_up_at >= 0 && used_up_at <= CALLS); // CALLS: never
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model m;
  model_make(&m, 1);
  run(&m, path);

  // What could not be persisted then is now.
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_cache_save(cache));
  REQUIRE(cache_stats(cache).entries == LAYERS);
  OK(xpwc_close(cache));
  model_free(&m);
  return 0;
}
