// changed DIRECTORY
//
// A data map whose source changes while it is packed: the host gets an error, and nothing is kept.
#include "host.h"

static char path[4096];
static model m;

static struct {
  int before, after; // answers when the first tensor is loaded, and at the end
  xpwc_status status;
  int asked;
} source;

static xpwc_status changed(void* context, const char* name, int* says) {
  REQUIRE(context == &m && strcmp(name, "host.h") == 0 && *says == 0);
  *says = source.asked == 0 ? source.before : source.after;
  source.asked++;
  return source.status;
}

// Creates a runtime in a cache that is opened for it. Returns the status of finalizing.
static xpwc_status create(bool table, xpwc_stats* stats) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  static xpwc_tensor tensors[TENSORS];
  xpwc_data_map map = table ? model_table(&m, tensors) : model_callbacks(&m);
  map.context = &m;
  map.changed = changed;
  source.asked = 0;
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void* data[TENSORS];
  model_load(&m, session, data);
  REQUIRE(source.asked == 1);
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));
  xnn_runtime_t runtime = runtime_create(data, provider);
  const xpwc_status status = xpwc_session_finalize(session);
  if (status != XPWC_STATUS_OK) {
    REQUIRE(strstr(xpwc_last_error(), "load the model again") != NULL);
  }
  XNN(xnn_delete_runtime(runtime));
  OK(xpwc_session_end(session));
  OK(xpwc_cache_save(cache));
  *stats = cache_stats(cache);
  OK(xpwc_close(cache));
  return status;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  xpwc_stats stats;
  for (int table = 0; table < 2; table++) {
    for (int i = 0; i < 4; i++) {
      source.before = i == 0;
      source.after = i == 1;
      source.status = i == 2 ? XPWC_STATUS_BUSY : i == 3 ? (xpwc_status)-1 : XPWC_STATUS_OK;
      REQUIRE(create(table, &stats) == XPWC_STATUS_SOURCE_CHANGED);
      REQUIRE(stats.sources_changed == 1 && stats.packed.entries == LAYERS && stats.entries == 0);
    }
  }
  source.before = source.after = 0;
  source.status = XPWC_STATUS_OK;
  OK(create(false, &stats));
  REQUIRE(stats.sources_changed == 0 && stats.entries == LAYERS && source.asked == 2);
  source.after = 1; // which packs nothing, but finds by its digest what may be of the other content
  REQUIRE(create(false, &stats) == XPWC_STATUS_SOURCE_CHANGED);
  REQUIRE(stats.sources_changed == 1 && stats.hits.entries == LAYERS && source.asked == 2);
  model_free(&m);
  return 0;
}
