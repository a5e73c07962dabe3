// moved DIRECTORY
//
// A host loads one model from several places in turn, with one cache. Each place is read once.
#include "host.h"

static char path[4096];
static model m;

// Where the model lies: what the host gives as source, and what each stamp begins with.
typedef struct place {
  const char *source, *stamp;
} place;

static const place* here;

static xpwc_status get(void* context, const char* name, xpwc_tensor* to) {
  for (int i = 0; i < TENSORS; i++) {
    tensor* t = &m.tensors[i];
    if (strcmp(t->name, name) == 0) {
      static char stamps[TENSORS][64];
      snprintf(stamps[i], sizeof(stamps[i]), "%s %d", here->stamp, i);
      tensor_describe(t, to);
      to->source = here->source;
      to->stamp = stamps[i];
      to->digest = NULL;
      return XPWC_STATUS_OK;
    }
  }
  (void)context;
  return XPWC_STATUS_UNKNOWN_TENSOR;
}

// Starts with the model in a place. Returns how many tensors were read.
static int start(const place* p, const float want[WIDTH], uint64_t* written) {
  here = p;
  model_forget_counts(&m);
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  xpwc_data_map map;
  memset(&map, 0, sizeof(map));
  map.struct_size = sizeof(map);
  map.get = get;
  opened o = model_open(&m, cache, &map);
  float got[WIDTH];
  runtime_infer(o.runtime, got);
  require_same_output(want, got);
  XNN(xnn_delete_runtime(o.runtime));
  OK(xpwc_session_end(o.session));
  OK(xpwc_cache_save(cache));
  *written = cache_stats(cache).written_bytes;
  OK(xpwc_close(cache));
  int reads = 0;
  for (int i = 0; i < TENSORS; i++) {
    reads += __atomic_load_n(&m.tensors[i].evictions, __ATOMIC_SEQ_CST);
  }
  return reads;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  float want[WIDTH];
  model_infer_plain(&m, want);
  static const place places[] = {
      {"/a/model", "1:10"},
      {"/b/model", "1:11"}, // a copy
      {"/c/model", "1:10"}, // another path, and what the stamp is of the host does not say
      {"/d/model", XPWC_FILE_STAMP "1:10"},
  };
  enum { PLACES = sizeof(places) / sizeof(*places) };
  uint64_t written;
  for (int i = 0; i < PLACES; i++) {
    REQUIRE(start(&places[i], want, &written) > 0 && written > 0);
  }
  for (int n = 0; n < 2; n++) {
    for (int i = 0; i < PLACES; i++) {
      REQUIRE(start(&places[i], want, &written) == 0 && written == 0);
    }
  }
  static const place moved = {"/e/model", XPWC_FILE_STAMP "1:10"}; // the same file
  REQUIRE(start(&moved, want, &written) == 0 && written == 0);
  model_free(&m);
  return 0;
}
