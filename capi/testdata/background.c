// background WHAT DIRECTORY [BALLAST]
//
// The log reports what goes wrong in the background when it happens: the host makes no call until the message is there.
//
//   damaged   packed weights in the file turn out damaged
//   replaced  the file is gone before it was committed
//   disk      the disk cannot take what was written; writing BALLAST until there is no space makes it so
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <unistd.h>

#include "host.h"

static char path[4096];
static model m;

// A listener waits for a message.
typedef struct listener {
  pthread_mutex_t lock;
  pthread_cond_t arrived;
  const char* text; // that the message has in it
  uint32_t level;   // of the message; or above all, as long as there is none
} listener;

static void on_log(void* context, uint32_t level, const char* message) {
  listener* l = (listener*)context;
  REQUIRE(pthread_mutex_lock(&l->lock) == 0);
  if (strstr(message, l->text) != NULL && strstr(message, path) != NULL && strchr(message, '\n') == NULL) {
    l->level = level;
    REQUIRE(pthread_cond_signal(&l->arrived) == 0);
  }
  REQUIRE(pthread_mutex_unlock(&l->lock) == 0);
}

static void await(listener* l, uint32_t level) {
  REQUIRE(pthread_mutex_lock(&l->lock) == 0);
  while (l->level > XPWC_LOG_ERROR) {
    REQUIRE(pthread_cond_wait(&l->arrived, &l->lock) == 0);
  }
  REQUIRE(l->level == level);
  REQUIRE(pthread_mutex_unlock(&l->lock) == 0);
}

static void fill_up(const char* ballast) {
  static const char zeros[1 << 16];
  FILE* f = fopen(ballast, "wb");
  REQUIRE(f != NULL && setvbuf(f, NULL, _IONBF, 0) == 0);
  while (fwrite(zeros, 1, sizeof(zeros), f) == sizeof(zeros)) {
  }
  fclose(f);
}

static void pack_and_save(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 3);
  const bool damaged = strcmp(argv[1], "damaged") == 0, disk = strcmp(argv[1], "disk") == 0;
  snprintf(path, sizeof(path), "%s/cache", argv[2]);
  model_make(&m, 1);
  if (damaged) {
    pack_and_save();
    FILE* f = fopen(path, "r+b");
    REQUIRE(f != NULL && fseek(f, 4096 + 1000, SEEK_SET) == 0);
    REQUIRE(fwrite("damage", 1, 6, f) == 6 && fclose(f) == 0);
  }
  listener l = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, XPWC_LOG_ERROR + 1};
  l.text = damaged ? "damaged payload" : "could not be committed";
  xpwc_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.log = on_log;
  options.context = &l;
  xpwc_cache cache;
  OK(xpwc_open(path, &options, &cache));
  const xpwc_data_map map = model_callbacks(&m);
  opened o = model_begin(&m, cache, &map);
  if (disk) {
    REQUIRE(argc == 4);
    fill_up(argv[3]);
  } else if (!damaged) {
    REQUIRE(unlink(path) == 0);
  }
  OK(xpwc_session_finalize(o.session));
  await(&l, XPWC_LOG_WARNING);

  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  runtime_infer(o.runtime, got);
  REQUIRE(xpwc_session_check(o.session) == (disk ? XPWC_STATUS_LOST : XPWC_STATUS_OK));
  if (!damaged && !disk) {
    require_same_output(want, got);
  }
  if (disk) {
    REQUIRE(unlink(argv[3]) == 0);
    REQUIRE(xpwc_cache_save(cache) != XPWC_STATUS_OK); // once
    OK(xpwc_cache_save(cache));
  }
  opened_close(&o);
  const xpwc_status closed = xpwc_close(cache);
  REQUIRE(closed == XPWC_STATUS_OK || (!disk && closed == XPWC_STATUS_REPLACED));
  model_free(&m);
  return 0;
}
