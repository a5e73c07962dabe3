// reentrant DIRECTORY
//
// The host's callbacks may call the library with other caches. With the same cache, or to open one, they are refused,
// and nothing hangs.
#include <pthread.h>

#include "host.h"

static char path[4096];
static xpwc_cache cache, twin, other; // twin is another handle of cache
static xpwc_session session;
static model others_model;
static int calls, messages, progressed; // messages on the host's own thread
static pthread_t host;

// What happens is logged on a thread of the library, so that the handles may go meanwhile.
static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;

static void forget_handle(uint64_t* id) {
  REQUIRE(pthread_mutex_lock(&handles) == 0);
  *id = 0;
  REQUIRE(pthread_mutex_unlock(&handles) == 0);
}

static void is_refused(void) {
  xpwc_cache opened = {77};
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open("", NULL, &opened));
  REQUIRE(opened.id == 0);
  opened.id = 77;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open(path, NULL, &opened));
  REQUIRE(opened.id == 0);
  opened.id = 77;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open_fd(0, NULL, &opened));
  REQUIRE(opened.id == 0);
  if (cache.id == 0) {
    return; // it is being opened or closed
  }
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_close(cache));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_save(cache));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_save(twin));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_compact(cache));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_trim(cache));
  xpwc_stats stats = {.struct_size = sizeof(stats)};
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_stats(cache, &stats));
  const char* const* names;
  size_t count;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_names(cache, &names, &count));
  xpwc_session begun = {77};
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_begin(cache, NULL, &begun));
  REQUIRE(begun.id == 0);
  if (session.id == 0) {
    return;
  }
  const void* data;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_load(session, "w0", NULL, &data, NULL));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_alias(session, path, 1, others_model.tensors[0].content, NULL));
  struct xnn_weights_cache_provider* provider;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_provider(session, &provider));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_finalize(session));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_names(session, &names, &count));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_end(session));
}

static void use_the_library(void) {
  static __thread bool inside; // what is called here logs too
  if (inside) {
    return;
  }
  inside = true;
  __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
  REQUIRE(cache_stats(other).struct_size != 0);
  uint8_t digest[16];
  OK(xpwc_digest("", 0, digest));
  require_right(&others_model, other);
  OK(xpwc_cache_trim(other));
  REQUIRE(pthread_mutex_lock(&handles) == 0);
  is_refused();
  REQUIRE(pthread_mutex_unlock(&handles) == 0);
  inside = false;
}

static void on_log(void* context, uint32_t level, const char* message) {
  REQUIRE(context == &cache && message != NULL);
  (void)level;
  messages += pthread_equal(pthread_self(), host) != 0;
  use_the_library();
}

static void on_progress(void* context, const xpwc_progress* progress) {
  REQUIRE(context == &cache && progress != NULL);
  progressed++;
  use_the_library();
}

static xpwc_status fill(void* context, void* to, size_t size) {
  use_the_library();
  return tensor_fill(context, to, size);
}

static void release(void* context, const void* data, size_t size) {
  use_the_library();
  tensor_release(context, data, size);
}

static xpwc_status get(void* context, const char* name, xpwc_tensor* to) {
  use_the_library();
  const xpwc_status status = model_get(context, name, to);
  to->fill = to->fill == NULL ? NULL : fill;
  to->release = release;
  return status;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  host = pthread_self();
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&others_model, 9);
  OK(xpwc_open("", NULL, &other));
  const xpwc_options options = {.struct_size = sizeof(options), .log = on_log, .progress = on_progress, .context = &cache};
  xpwc_cache opened;
  OK(xpwc_open(path, NULL, &twin));
  OK(xpwc_open(path, &options, &opened));
  REQUIRE(pthread_mutex_lock(&handles) == 0);
  cache = opened;
  REQUIRE(pthread_mutex_unlock(&handles) == 0);

  model m;
  model_make(&m, 1);
  xpwc_data_map map = model_callbacks(&m);
  map.get = get;
  const void* data[TENSORS];
  xpwc_session begun;
  OK(xpwc_session_begin(cache, &map, &begun));
  REQUIRE(pthread_mutex_lock(&handles) == 0);
  session = begun;
  REQUIRE(pthread_mutex_unlock(&handles) == 0);
  for (int i = 0; i < TENSORS; i++) {
    OK(xpwc_session_load(session, m.tensors[i].name, NULL, &data[i], NULL));
  }
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));
  xnn_runtime_t runtime = runtime_create(data, provider);
  OK(xpwc_session_finalize(session));
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  runtime_infer(runtime, got);
  require_same_output(want, got);
  int before = messages;
  const void* late;
  FAILS(XPWC_STATUS_FINALIZED, xpwc_session_load(session, "w0", NULL, &late, NULL)); // whose message is not lost in the callback
  REQUIRE(messages == before + 1);
  XNN(xnn_delete_runtime(runtime));
  forget_handle(&session.id); // it is not valid any more when the callbacks are called
  OK(xpwc_session_end(begun));
  for (int i = 0; i < TENSORS; i++) {
    REQUIRE(m.tensors[i].gets == 1 && m.tensors[i].releases == 1);
  }
  OK(xpwc_cache_save(cache));
  OK(xpwc_cache_compact(cache));
  REQUIRE(progressed == LAYERS);
  before = messages;
  forget_handle(&cache.id);
  OK(xpwc_close(opened));
  REQUIRE(messages > before); // closed
  REQUIRE(calls >= 2 * TENSORS + LAYERS + 2);
  OK(xpwc_close(twin));
  OK(xpwc_close(other));
  model_free(&m);
  model_free(&others_model);
  return 0;
}
