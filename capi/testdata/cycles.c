// cycles DIRECTORY COUNT LEAK
//
// Opens, creates, executes, ends and closes COUNT times, and says after every hundredth what the process has by then:
// the cycle, resident bytes, allocated bytes, descriptors, threads and mappings. Leaks LEAK bytes a cycle on purpose.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "host.h"

static int entries_of(const char* directory) {
  DIR* d = opendir(directory);
  REQUIRE(d != NULL);
  int n = 0;
  while (readdir(d) != NULL) {
    n++;
  }
  REQUIRE(closedir(d) == 0);
  return n;
}

static int lines_of(const char* path) {
  FILE* f = fopen(path, "r");
  REQUIRE(f != NULL);
  int n = 0;
  for (int c = fgetc(f); c != EOF; c = fgetc(f)) {
    n += c == '\n';
  }
  REQUIRE(fclose(f) == 0);
  return n;
}

static long resident(void) {
  FILE* f = fopen("/proc/self/statm", "r");
  REQUIRE(f != NULL);
  long size = 0, pages = 0;
  REQUIRE(fscanf(f, "%ld %ld", &size, &pages) == 2);
  REQUIRE(fclose(f) == 0);
  return pages * sysconf(_SC_PAGESIZE);
}

static void report(int cycle) {
  printf(
      "%d %ld %zu %d %d %d\n", cycle, resident(), mallinfo2().uordblks + mallinfo2().hblkhd, entries_of("/proc/self/fd"),
      entries_of("/proc/self/task"), lines_of("/proc/self/maps"));
}

// A thread that comes, calls and goes.
static void* call_and_go(void* context) {
  const xpwc_cache* cache = (const xpwc_cache*)context;
  REQUIRE(cache_stats(*cache).struct_size == sizeof(xpwc_stats));
  fail_on_purpose();
  return NULL;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 4);
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  const int count = atoi(argv[2]);
  const size_t leak = (size_t)atoi(argv[3]);
  model m;
  model_make(&m, 1);
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  for (int cycle = 1; cycle <= count; cycle++) {
    xpwc_options options;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.writer_wait_ms = cycle; // other options each time
    xpwc_cache cache;
    OK(xpwc_open(cycle % 4 == 3 ? "" : path, &options, &cache));

    xpwc_tensor tensors[TENSORS];
    const xpwc_data_map map = cycle % 2 == 0 ? model_callbacks(&m) : model_table(&m, tensors);
    opened o = model_open(&m, cache, &map);
    runtime_infer(o.runtime, got);
    require_same_output(want, got);
    const void* data;
    FAILS(XPWC_STATUS_FINALIZED, xpwc_session_load(o.session, "w0", NULL, &data, NULL));
    opened_close(&o);

    xpwc_session abandoned; // with everything loaded and nothing packed
    OK(xpwc_session_begin(cache, &map, &abandoned));
    for (int i = 0; i < TENSORS; i++) {
      OK(xpwc_session_load(abandoned, m.tensors[i].name, NULL, &data, NULL));
    }
    FAILS(XPWC_STATUS_UNKNOWN_TENSOR, xpwc_session_load(abandoned, "w9", NULL, &data, NULL));
    OK(xpwc_session_end(abandoned));

    const char* const* names;
    size_t names_count;
    OK(xpwc_cache_names(cache, &names, &names_count));
    REQUIRE(names_count == LAYERS);
    xpwc_names_free(names);
    if (cycle % 10 == 0) {
      pthread_t thread;
      REQUIRE(pthread_create(&thread, NULL, call_and_go, &cache) == 0);
      REQUIRE(pthread_join(thread, NULL) == 0);
    }
    OK(xpwc_close(cache));
    if (leak != 0) {
      void* volatile lost = malloc(leak);
      memset(lost, 1, leak);
    }
    if (cycle % 100 == 0) {
      report(cycle);
    }
  }
  model_free(&m);
  return 0;
}
