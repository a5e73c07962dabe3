// options DIRECTORY
//
// What the options of xpwc_open do.
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static const char* directory;
static char path[4096];
static model m;

static xpwc_options defaults(void) {
  xpwc_options o;
  memset(&o, 0, sizeof(o));
  o.struct_size = sizeof(o);
  return o;
}

static void start_with_a_good_file(void) {
  unlink(path);
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
}

static void refused(xpwc_status want, const char* file, const xpwc_options* o) {
  xpwc_cache cache = {77};
  FAILS(want, xpwc_open(file, o, &cache));
  REQUIRE(cache.id == 0);
}

static void read_only(void) {
  start_with_a_good_file();
  struct stat before, after;
  REQUIRE(stat(path, &before) == 0);
  xpwc_options o = defaults();
  o.flags = XPWC_OPEN_READ_ONLY;
  xpwc_cache cache;
  OK(xpwc_open(path, &o, &cache));
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS);
  model other;
  model_make(&other, 2);
  require_right(&other, cache); // is packed, but not into the file
  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.private_read_only.entries == LAYERS && stats.written_bytes == 0);
  FAILS(XPWC_STATUS_READ_ONLY, xpwc_cache_compact(cache));
  OK(xpwc_close(cache));
  REQUIRE(stat(path, &after) == 0);
  REQUIRE(before.st_size == after.st_size && before.st_ino == after.st_ino);
  REQUIRE(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
  model_free(&other);

  // Nothing is created either.
  REQUIRE(unlink(path) == 0);
  OK(xpwc_open(path, &o, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
  REQUIRE(access(path, F_OK) != 0);
}

static void a_damaged_file(void) {
  start_with_a_good_file();
  damage_cache(path);
  xpwc_options o = defaults();
  o.flags = XPWC_OPEN_STRICT;
  refused(XPWC_STATUS_DAMAGED, path, &o);
  REQUIRE(strstr(xpwc_last_error(), path) != NULL);

  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  REQUIRE(cache_stats(cache).damaged == 1);
  require_right(&m, cache);
  OK(xpwc_close(cache));
  char aside[sizeof(path) + 8];
  snprintf(aside, sizeof(aside), "%s.damaged", path);
  REQUIRE(unlink(aside) == 0);

  OK(xpwc_open(path, &o, &cache)); // it is whole again
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS && cache_stats(cache).damaged == 0);
  OK(xpwc_close(cache));
}

static void files_that_are_no_caches(void) {
  REQUIRE(unlink(path) == 0);
  FILE* f = fopen(path, "wb");
  REQUIRE(f != NULL);
  for (int i = 0; i < 10000; i++) {
    fputs("a letter to somebody\n", f);
  }
  REQUIRE(fclose(f) == 0);
  for (uint32_t flags = 0; flags <= XPWC_OPEN_STRICT; flags += XPWC_OPEN_STRICT) {
    xpwc_options o = defaults();
    o.flags = flags;
    refused(XPWC_STATUS_NOT_CACHE, path, &o);
    REQUIRE(strstr(xpwc_last_error(), path) != NULL);
  }
  struct stat status;
  REQUIRE(stat(path, &status) == 0 && status.st_size == 210000);
}

static void files_that_others_can_change(void) {
  start_with_a_good_file();
  char link[sizeof(path) + 8];
  snprintf(link, sizeof(link), "%s.link", path);
  REQUIRE(symlink(path, link) == 0);
  xpwc_cache cache;
  OK(xpwc_open(link, NULL, &cache)); // which only this user can change
  require_right(&m, cache);
  OK(xpwc_close(cache));
  REQUIRE(chmod(directory, 0777) == 0);
  refused(XPWC_STATUS_UNSAFE_FILE, link, NULL);
  REQUIRE(chmod(directory, 0700) == 0);
  REQUIRE(chmod(path, 0666) == 0);
  refused(XPWC_STATUS_UNSAFE_FILE, path, NULL);
  REQUIRE(strstr(xpwc_last_error(), "set XPWC_OPEN_ALLOW_UNSAFE_FILE") != NULL);
  xpwc_options o = defaults();
  o.flags = XPWC_OPEN_ALLOW_UNSAFE_FILE;
  OK(xpwc_open(link, &o, &cache));
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS);
  OK(xpwc_close(cache));
  REQUIRE(unlink(link) == 0);
}

static void file_cannot_be_used(xpwc_status why, const char* file) {
  xpwc_options o = defaults();
  refused(why, file, &o);
  o.flags = XPWC_OPEN_OR_MEMORY;
  xpwc_cache cache, again;
  fail_on_purpose();
  OK(xpwc_open(file, &o, &cache));
  REQUIRE(strstr(xpwc_last_error(), directory) != NULL);
  REQUIRE(cache_stats(cache).unusable == (uint64_t)why);
  require_right(&m, cache);
  fail_on_purpose();
  OK(xpwc_open(file, &o, &again));
  REQUIRE(strstr(xpwc_last_error(), directory) != NULL);
  require_right(&m, again);
  REQUIRE(cache_stats(again).hits.entries == LAYERS && cache_stats(again).written_bytes == 0);
  OK(xpwc_close(again));
  OK(xpwc_close(cache));
}

static void memory_takes_the_place_of_a_file_that_cannot_be_used(void) {
  char file[sizeof(path) + 16];
  snprintf(file, sizeof(file), "%s/absent/cache", directory);
  file_cannot_be_used(XPWC_STATUS_SYSTEM_ERROR, file);
  file_cannot_be_used(XPWC_STATUS_NOT_CACHE, directory);
  start_with_a_good_file();
  REQUIRE(chmod(path, 0666) == 0);
  file_cannot_be_used(XPWC_STATUS_UNSAFE_FILE, path);
  REQUIRE(chmod(path, 0600) == 0);

  xpwc_options o = defaults();
  o.flags = XPWC_OPEN_OR_MEMORY;
  xpwc_cache cache;
  OK(xpwc_open(path, &o, &cache));
  REQUIRE(cache_stats(cache).unusable == XPWC_STATUS_OK);
  require_right(&m, cache);
  REQUIRE(cache_stats(cache).hits.entries == LAYERS);
  OK(xpwc_close(cache));
}

static void one_path_has_one_set_of_options(void) {
  start_with_a_good_file();
  xpwc_cache first, second;
  xpwc_options o = defaults();
  OK(xpwc_open(path, &o, &first));
  OK(xpwc_open(path, NULL, &second));
  OK(xpwc_close(second));
  xpwc_options others[7];
  for (int i = 0; i < 7; i++) {
    others[i] = defaults();
  }
  others[0].flags = XPWC_OPEN_READ_ONLY;
  others[1].flags = XPWC_OPEN_STRICT;
  others[2].flags = XPWC_OPEN_ALLOW_UNSAFE_FILE;
  others[3].flags = XPWC_OPEN_PREFETCH;
  others[4].verify = XPWC_VERIFY_ON_USE;
  others[5].writer_wait_ms = 1;
  others[6].max_bytes = 1 << 30;
  for (int i = 0; i < 7; i++) {
    refused(XPWC_STATUS_OTHER_OPTIONS, path, &others[i]);
  }
  // These are the defaults, set explicitly.
  o.writer_wait_ms = 10000;
  OK(xpwc_open(path, &o, &second));
  OK(xpwc_close(second));
  OK(xpwc_close(first));
  for (int i = 0; i < 7; i++) {
    OK(xpwc_open(path, &others[i], &first));
    require_right(&m, first);
    OK(xpwc_close(first));
  }
}

static void count_damage(void* context, uint32_t level, const char* message) {
  if (level == XPWC_LOG_WARNING && strstr(message, "damaged payload is packed afresh") != NULL) {
    __atomic_fetch_add((int*)context, 1, __ATOMIC_SEQ_CST);
  }
}

// Packed weights in the file changed after they were written.
static void damaged_payloads(void) {
  for (int v = XPWC_VERIFY_BACKGROUND; v <= XPWC_VERIFY_STRUCTURE; v++) {
    start_with_a_good_file();
    FILE* f = fopen(path, "r+b");
    REQUIRE(f != NULL && fseek(f, 4096 + 1000, SEEK_SET) == 0);
    REQUIRE(fwrite("damage", 1, 6, f) == 6 && fclose(f) == 0);
    xpwc_options o = defaults();
    o.verify = (uint32_t)v;
    o.log = count_damage;
    int reports = 0;
    o.context = &reports;
    xpwc_cache cache;
    OK(xpwc_open(path, &o, &cache));
    if (v == XPWC_VERIFY_BACKGROUND) {
      const xpwc_data_map map = model_callbacks(&m);
      opened o = model_open(&m, cache, &map);
      while (cache_stats(cache).unverified.entries > 0 || __atomic_load_n(&reports, __ATOMIC_SEQ_CST) == 0) {
        sched_yield();
      }
      REQUIRE(cache_stats(cache).damaged_payloads == 1 && cache_stats(cache).verified.entries == LAYERS - 1);
      opened_close(&o);
      require_right(&m, cache);
      REQUIRE(cache_stats(cache).packed.entries == 1 && cache_stats(cache).unverified.entries == 0);
      REQUIRE(__atomic_load_n(&reports, __ATOMIC_SEQ_CST) == 1);
    } else if (v == XPWC_VERIFY_STRUCTURE) {
      float output[WIDTH];
      model_run(&m, cache, output);
      REQUIRE(cache_stats(cache).damaged_payloads == 0 && cache_stats(cache).verified.entries == 0);
    } else {
      require_right(&m, cache);
      REQUIRE(cache_stats(cache).damaged_payloads == 1 && cache_stats(cache).verified.entries == LAYERS - 1);
    }
    OK(xpwc_close(cache));
  }
}

static void the_file_keeps_to_its_size(void) {
  start_with_a_good_file();
  struct stat full, kept;
  REQUIRE(stat(path, &full) == 0);
  xpwc_options o = defaults();
  o.max_bytes = (uint64_t)full.st_size + 1000;
  xpwc_cache cache;
  OK(xpwc_open(path, &o, &cache));
  for (uint32_t salt = 2; salt < 6; salt++) {
    model other;
    model_make(&other, salt);
    for (int i = 0; i < TENSORS; i++) {
      other.tensors[i].name[0] += (char)salt; // nothing supersedes the others
    }
    require_right(&other, cache);
    OK(xpwc_cache_save(cache));
    model_free(&other);
  }
  OK(xpwc_close(cache));
  REQUIRE(stat(path, &kept) == 0);
  REQUIRE((uint64_t)kept.st_size <= o.max_bytes);
}

// A host compiled with a header that had fewer members, or has more.
static void sizes_of_other_headers(void) {
  struct {
    xpwc_options known;
    char unknown[256];
  } newer;
  unlink(path);
  for (size_t size = 1; size <= sizeof(newer); size++) {
    memset(&newer, 0, sizeof(newer));
    newer.known.struct_size = size;
    xpwc_cache cache = {77};
    fail_on_purpose();
    const xpwc_status status = xpwc_open(path, &newer.known, &cache);
    if (status != XPWC_STATUS_OK) {
      // Nothing is as small as a header that has not even the flags.
      REQUIRE(status == XPWC_STATUS_INVALID_ARGUMENT && size < offsetof(xpwc_options, verify));
      REQUIRE(cache.id == 0 && !last_error_is_of_fail_on_purpose());
      continue;
    }
    OK(xpwc_close(cache));
  }
  // Members that the host's header does not have are not read, whatever lies there.
  memset(&newer, 0xff, sizeof(newer));
  newer.known.struct_size = offsetof(xpwc_options, verify);
  newer.known.flags = XPWC_OPEN_STRICT;
  xpwc_cache cache;
  OK(xpwc_open(path, &newer.known, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  directory = argv[1];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  read_only();
  a_damaged_file();
  files_that_are_no_caches();
  files_that_others_can_change();
  memory_takes_the_place_of_a_file_that_cannot_be_used();
  one_path_has_one_set_of_options();
  damaged_payloads();
  the_file_keeps_to_its_size();
  sizes_of_other_headers();
  model_free(&m);
  return 0;
}
