// warm PATH cold|warm callbacks|table
//
// Runs the model on the cache at PATH, which has nothing of it (cold) or everything (warm), with the weights given by
// callbacks or in a table.
#include "host.h"

static void require_counts(const model* m, bool warm, bool table, bool ended) {
  for (int i = 0; i < TENSORS; i++) {
    const tensor* t = &m->tensors[i];
    REQUIRE(t->gets == (table ? 0 : 1));
    REQUIRE(t->fills == (t->computed && !warm ? 1 : 0));
    if (!warm || t->stamp[0] != 0) { // else its digest may have been read
      REQUIRE(t->evictions == (t->retain || t->computed || warm ? 0 : 1));
    }
    REQUIRE(t->releases == (t->retain && !ended ? 0 : 1));
  }
}

int main(int argc, char** argv) {
  REQUIRE(argc == 4);
  const bool warm = strcmp(argv[2], "warm") == 0;
  const bool table = strcmp(argv[3], "table") == 0;

  model m;
  model_make(&m, 1);
  m.tensors[5].retain = true;
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);

  xpwc_cache cache;
  OK(xpwc_open(argv[1], NULL, &cache));
  xpwc_tensor tensors[TENSORS];
  const xpwc_data_map map = table ? model_table(&m, tensors) : model_callbacks(&m);
  opened o = model_open(&m, cache, &map);
  memset(tensors, 0xee, sizeof(tensors)); // a table is copied
  require_session_names(o.session, "w0b0 w1b1 w2b2 ");
  require_counts(&m, warm, table, false);
  for (int i = 0; i < 2; i++) {
    runtime_infer(o.runtime, got);
    require_same_output(want, got);
  }

  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.hits.entries == (warm ? LAYERS : 0));
  REQUIRE(stats.misses == (warm ? 0 : LAYERS));
  REQUIRE(stats.packed.entries == (warm ? 0 : LAYERS));
  REQUIRE((warm ? stats.hits.bytes : stats.packed.bytes) >= LAYERS * WIDTH * WIDTH * sizeof(float));
  REQUIRE(stats.mapped_bytes == (warm ? stats.hits.bytes : stats.packed.bytes));
  REQUIRE(stats.private_bytes == 0 && stats.private_unnamed.entries == 0 && stats.private_disk.entries == 0);
  opened_close(&o);
  require_counts(&m, warm, table, true);

  OK(xpwc_cache_save(cache));
  const xpwc_stats saved = cache_stats(cache);
  REQUIRE(saved.generation == 1 && saved.entries == LAYERS && saved.mapped_bytes == 0);
  REQUIRE((saved.written_bytes == 0) == warm);
  OK(xpwc_close(cache));
  model_free(&m);
  return 0;
}
