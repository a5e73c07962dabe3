// busy PATH pack|meet
//
// pack begins to pack into the cache at PATH, says so, and goes on when a line comes. meet finds that another process
// is packing.
#include "host.h"

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  const bool pack = strcmp(argv[2], "pack") == 0;
  xpwc_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.writer_wait_ms = -1;
  xpwc_cache cache;
  OK(xpwc_open(argv[1], &options, &cache));
  model m;
  model_make(&m, 1);
  if (pack) {
    const xpwc_data_map map = model_callbacks(&m);
    opened o = model_begin(&m, cache, &map);
    printf("packing\n");
    fflush(stdout);
    REQUIRE(getchar() != EOF);
    OK(xpwc_session_finalize(o.session));
    opened_close(&o);
    OK(xpwc_cache_compact(cache));
  } else {
    FAILS(XPWC_STATUS_BUSY, xpwc_cache_compact(cache));
    require_right(&m, cache);
    const xpwc_stats stats = cache_stats(cache);
    REQUIRE(stats.private_busy.entries == LAYERS && stats.packed.entries == 0);
  }
  model_free(&m);
  OK(xpwc_close(cache));
  return 0;
}
