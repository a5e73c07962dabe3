// maintenance DIRECTORY
//
// The functions that look after a cache: names, trim, compact, save.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static char path[4096];
static model m;

static void require_names(xpwc_cache cache, size_t count, const char* const* want) {
  const char* const* names = NULL;
  size_t got = 77;
  OK(xpwc_cache_names(cache, &names, &got));
  REQUIRE(got == count);
  for (size_t i = 0; i < count; i++) {
    REQUIRE(strcmp(names[i], want[i]) == 0);
  }
  xpwc_names_free(names);
}

static const char* const all[] = {"w0b0", "w1b1", "w2b2"};

static void names(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_names(cache, 0, NULL);
  const xpwc_data_map map = model_callbacks(&m);
  opened o = model_open(&m, cache, &map);
  require_names(cache, LAYERS, all); // of the session
  opened_close(&o);
  require_names(cache, LAYERS, all);
  OK(xpwc_close(cache));
  OK(xpwc_open(path, NULL, &cache));
  require_names(cache, LAYERS, all); // of the file
  OK(xpwc_close(cache));
}

static void save(void) {
  xpwc_cache cache, same;
  OK(xpwc_open(path, NULL, &cache));
  model other;
  model_make(&other, 2);
  const xpwc_data_map map = model_callbacks(&other);
  opened o = model_open(&other, cache, &map);
  const uint64_t before = cache_stats(cache).generation;
  OK(xpwc_cache_save(cache));
  REQUIRE(cache_stats(cache).generation >= 1 && cache_stats(cache).generation >= before);
  const uint64_t saved = cache_stats(cache).generation;
  OK(xpwc_cache_save(cache)); // nothing is new
  REQUIRE(cache_stats(cache).generation == saved);
  opened_close(&o);
  OK(xpwc_open(path, NULL, &same));
  OK(xpwc_cache_save(same));
  OK(xpwc_close(same));
  OK(xpwc_close(cache));
  model_free(&other);
}

static void* compact_meanwhile(void* cache) {
  OK(xpwc_cache_compact(*(const xpwc_cache*)cache));
  return NULL;
}

static void compact(void) {
  REQUIRE(unlink(path) == 0);
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  model later;
  model_make(&later, 1);
  require_right(&later, cache);
  tensor* changed = &later.tensors[0]; // less than is worth compacting unasked
  fill_with_floats(changed->content, WIDTH * WIDTH, 99);
  strcpy(changed->stamp, "another");
  require_right(&later, cache);
  OK(xpwc_cache_save(cache));
  REQUIRE(cache_stats(cache).dead_bytes >= changed->size && cache_stats(cache).compactions == 0);
  struct stat before, after;
  REQUIRE(stat(path, &before) == 0);

  // Runtimes go on using the old file's memory.
  const xpwc_data_map map = model_callbacks(&later);
  opened o = model_open(&later, cache, &map);
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&later, want);
  OK(xpwc_cache_compact(cache));
  runtime_infer(o.runtime, got);
  require_same_output(want, got);
  REQUIRE(stat(path, &after) == 0);
  REQUIRE(after.st_size < before.st_size && after.st_ino != before.st_ino);
  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.compactions == 1 && stats.entries == LAYERS && (off_t)stats.file_bytes == after.st_size);
  opened_close(&o);

  // It waits for sessions of this process that are packing.
  model new;
  model_make(&new, 20);
  const xpwc_data_map new_map = model_callbacks(&new);
  o = model_begin(&new, cache, &new_map);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, compact_meanwhile, &cache) == 0);
  OK(xpwc_session_finalize(o.session));
  REQUIRE(pthread_join(thread, NULL) == 0);
  opened_close(&o);
  require_right(&new, cache);
  OK(xpwc_close(cache));
  model_free(&new);
  model_free(&later);
}

static void trim(void) {
  xpwc_cache cache;
  for (int with_file = 0; with_file < 2; with_file++) {
    REQUIRE(!with_file || unlink(path) == 0);
    OK(xpwc_open(with_file ? path : "", NULL, &cache));
    require_right(&m, cache);
    OK(xpwc_cache_save(cache));
    const xpwc_stats before = cache_stats(cache);
    require_right(&m, cache);
    REQUIRE(cache_stats(cache).hits.entries == before.hits.entries + LAYERS);

    // What is in use stays.
    const xpwc_data_map map = model_callbacks(&m);
    opened o = model_open(&m, cache, &map);
    float want[WIDTH], got[WIDTH];
    model_infer_plain(&m, want);
    OK(xpwc_cache_trim(cache));
    runtime_infer(o.runtime, got);
    require_same_output(want, got);
    require_names(cache, LAYERS, all);
    opened_close(&o);

    OK(xpwc_cache_trim(cache));
    require_names(cache, with_file ? LAYERS : 0, all);
    const xpwc_stats trimmed = cache_stats(cache);
    require_right(&m, cache);
    const xpwc_stats stats = cache_stats(cache);
    REQUIRE(stats.packed.entries == trimmed.packed.entries + (with_file ? 0 : LAYERS));
    REQUIRE(stats.hits.entries == trimmed.hits.entries + (with_file ? LAYERS : 0));
    OK(xpwc_close(cache));
  }
}

static void in_memory(void) {
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  OK(xpwc_cache_save(cache));
  require_right(&m, cache);
  OK(xpwc_cache_save(cache));
  (void)xpwc_cache_compact(cache); // there is nothing to do
  require_right(&m, cache);
  require_names(cache, LAYERS, all);
  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.hits.entries == LAYERS && stats.file_bytes == 0 && stats.generation == 0);

  xpwc_cache other; // has nothing to do with the first
  OK(xpwc_open("", NULL, &other));
  require_names(other, 0, NULL);
  OK(xpwc_close(other));
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  names();
  save();
  compact();
  trim();
  in_memory();
  model_free(&m);
  return 0;
}
