// watching DIRECTORY
//
// What a cache reports to its host: messages, progress and figures.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static char path[4096];
static model m;

// A watcher keeps what is reported. Messages may arrive on several threads at once.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;

typedef struct watcher {
  int messages[XPWC_LOG_ERROR + 1];
  char text[XPWC_LOG_ERROR + 1][65536];
  int progressed;
  uint64_t bytes, done, total;
  char names[1024];
} watcher;

static watcher w;

static void on_log(void* context, uint32_t level, const char* message) {
  REQUIRE(context == &w);
  REQUIRE(level <= XPWC_LOG_ERROR);
  REQUIRE(message != NULL && message[0] != '\0');
  REQUIRE(pthread_mutex_lock(&lock) == 0);
  w.messages[level]++;
  const size_t length = strlen(w.text[level]);
  snprintf(w.text[level] + length, sizeof(w.text[level]) - length, "%s\n", message);
  REQUIRE(pthread_cond_signal(&arrived) == 0);
  REQUIRE(pthread_mutex_unlock(&lock) == 0);
}

static int messages(int level) {
  REQUIRE(pthread_mutex_lock(&lock) == 0);
  const int n = w.messages[level];
  REQUIRE(pthread_mutex_unlock(&lock) == 0);
  return n;
}

// Waits until a message of that level has text in it. What happens is logged when it happens, on a thread of the
// library.
static void await(int level, const char* text) {
  REQUIRE(pthread_mutex_lock(&lock) == 0);
  while (strstr(w.text[level], text) == NULL) {
    REQUIRE(pthread_cond_wait(&arrived, &lock) == 0);
  }
  REQUIRE(pthread_mutex_unlock(&lock) == 0);
}

static void on_progress(void* context, const xpwc_progress* p) {
  REQUIRE(context == &w);
  REQUIRE(p->struct_size == sizeof(*p));
  REQUIRE(p->bytes > 0 && p->done > w.done && p->done <= p->total && p->total >= w.total);
  w.progressed++;
  w.bytes += p->bytes;
  w.done = p->done;
  w.total = p->total;
  strcat(w.names, p->name);
  strcat(w.names, " ");
}

static xpwc_options watched(uint32_t level) {
  memset(&w, 0, sizeof(w));
  xpwc_options o;
  memset(&o, 0, sizeof(o));
  o.struct_size = sizeof(o);
  o.log_level = level;
  o.log = on_log;
  o.progress = on_progress;
  o.context = &w;
  return o;
}

static void progress(void) {
  const xpwc_options o = watched(XPWC_LOG_ERROR);
  xpwc_cache cache;
  OK(xpwc_open(path, &o, &cache));
  require_right(&m, cache);
  const uint64_t unpacked = LAYERS * (WIDTH * WIDTH + WIDTH) * sizeof(float);
  REQUIRE(w.progressed == LAYERS && strcmp(w.names, "w0b0 w1b1 w2b2 ") == 0);
  REQUIRE(w.total == unpacked && w.done == unpacked);
  REQUIRE(w.bytes == cache_stats(cache).packed.bytes);
  require_right(&m, cache);
  REQUIRE(w.progressed == LAYERS); // nothing was packed
  OK(xpwc_close(cache));
}

static void levels(void) {
  for (int level = XPWC_LOG_DEBUG; level <= XPWC_LOG_ERROR; level++) {
    unlink(path);
    const xpwc_options o = watched((uint32_t)level);
    xpwc_cache cache;
    OK(xpwc_open(path, &o, &cache));
    require_right(&m, cache);
    OK(xpwc_cache_save(cache));
    if (level <= XPWC_LOG_INFO) {
      await(XPWC_LOG_INFO, "committed packed weights, generation 1, entries 3, bytes ");
      await(XPWC_LOG_INFO, path);
    }
    for (int i = 0; i < level; i++) {
      REQUIRE(messages(i) == 0);
    }
    REQUIRE(messages(XPWC_LOG_WARNING) == 0 && messages(XPWC_LOG_ERROR) == 0);

    // A failing call has the same message in both places.
    FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_stats(cache, NULL));
    REQUIRE(messages(XPWC_LOG_ERROR) == 1);
    char message[4096];
    snprintf(message, sizeof(message), "%s\n", xpwc_last_error());
    REQUIRE(strcmp(w.text[XPWC_LOG_ERROR], message) == 0);
    OK(xpwc_close(cache));
  }
}

static void what_the_cache_goes_on_without_is_a_warning(void) {
  // A damaged file.
  damage_cache(path);
  xpwc_options o = watched(XPWC_LOG_WARNING);
  xpwc_cache cache;
  OK(xpwc_open(path, &o, &cache));
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).damaged == 1);
  await(XPWC_LOG_WARNING, "cache file is damaged: ");
  await(XPWC_LOG_WARNING, "damaged cache file was set aside, as ");
  await(XPWC_LOG_WARNING, path);
  OK(xpwc_close(cache));
  REQUIRE(messages(XPWC_LOG_ERROR) == 0);
  char aside[sizeof(path) + 8];
  snprintf(aside, sizeof(aside), "%s.damaged", path);
  REQUIRE(unlink(aside) == 0);

  // Private memory, which the host asked for.
  o = watched(XPWC_LOG_INFO);
  o.flags = XPWC_OPEN_READ_ONLY;
  OK(xpwc_open(path, &o, &cache));
  require_right(&m, cache);
  const int before = messages(XPWC_LOG_INFO); // everything is in the file
  model other;
  model_make(&other, 2);
  require_right(&other, cache);
  await(XPWC_LOG_INFO, "packing into private memory, reason read-only");
  OK(xpwc_close(cache));
  await(XPWC_LOG_INFO, "a load took longer than mapping, reason content, entries 3, bytes ");
  REQUIRE(messages(XPWC_LOG_INFO) > before && messages(XPWC_LOG_WARNING) == 0);
  model_free(&other);

  // The directory goes away while the cache is open.
  char directory[sizeof(path) + 8], file[sizeof(path) + 16];
  snprintf(directory, sizeof(directory), "%s.d", path);
  snprintf(file, sizeof(file), "%s/cache", directory);
  REQUIRE(mkdir(directory, 0700) == 0);
  o = watched(XPWC_LOG_WARNING);
  OK(xpwc_open(file, &o, &cache));
  REQUIRE(rmdir(directory) == 0);
  require_right(&m, cache);
  await(XPWC_LOG_WARNING, "packing into private memory, reason disk, ");
  OK(xpwc_close(cache));
}

static void opening_that_fails_is_logged_too(void) {
  const xpwc_options o = watched(XPWC_LOG_ERROR);
  xpwc_cache cache;
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_open("/nowhere/cache", &o, &cache));
  REQUIRE(messages(XPWC_LOG_ERROR) == 1 && strstr(w.text[XPWC_LOG_ERROR], "/nowhere") != NULL);
}

// A host compiled with a header that had fewer members, or has more: nothing after its members is touched.
static void figures_of_any_size(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_cache_save(cache));
  const xpwc_stats all = cache_stats(cache);
  REQUIRE(all.struct_size == sizeof(all));
  struct {
    xpwc_stats stats;
    uint8_t behind[256];
  } s;
  for (size_t size = 1; size <= sizeof(s); size++) {
    memset(&s, 0xaa, sizeof(s));
    s.stats.struct_size = size;
    const xpwc_status status = xpwc_cache_stats(cache, &s.stats);
    REQUIRE(status == XPWC_STATUS_OK || (status == XPWC_STATUS_INVALID_ARGUMENT && size < offsetof(xpwc_stats, misses)));
    const uint8_t* got = (const uint8_t*)&s;
    for (size_t i = size > sizeof(size_t) ? size : sizeof(size_t); i < sizeof(s); i++) {
      REQUIRE(got[i] == 0xaa);
    }
    if (status == XPWC_STATUS_OK) { // whole members are there
      const size_t members = size < sizeof(all) ? size / sizeof(uint64_t) * sizeof(uint64_t) : sizeof(all);
      REQUIRE(members <= sizeof(size_t) || memcmp(got + sizeof(size_t), (const uint8_t*)&all + sizeof(size_t), members - sizeof(size_t)) == 0);
    }
  }
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  progress();
  levels();
  what_the_cache_goes_on_without_is_a_warning();
  opening_that_fails_is_logged_too();
  figures_of_any_size();
  model_free(&m);
  return 0;
}
