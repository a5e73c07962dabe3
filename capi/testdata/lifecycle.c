// lifecycle DIRECTORY
//
// Calls in an order that the header says something about: closing early, twice, or one of several handles; loading and
// aliasing late; sessions that end early.
#include "host.h"

static char path[4096];
static model m;

static void a_cache_stays_open_while_sessions_are(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  const xpwc_data_map map = model_callbacks(&m);
  opened o = model_open(&m, cache, &map);
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  for (int i = 0; i < 3; i++) {
    FAILS(XPWC_STATUS_IN_USE, xpwc_close(cache));
    runtime_infer(o.runtime, got);
    require_same_output(want, got);
  }
  require_right(&m, cache);
  opened_close(&o);
  OK(xpwc_close(cache));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_close(cache));
}

static void a_handle_is_in_use_by_its_own_sessions(void) {
  xpwc_cache first, second;
  OK(xpwc_open(path, NULL, &first));
  OK(xpwc_open(path, NULL, &second));
  REQUIRE(first.id != second.id);
  const xpwc_data_map map = model_callbacks(&m);
  opened o = model_open(&m, first, &map);
  FAILS(XPWC_STATUS_IN_USE, xpwc_close(first));
  REQUIRE(cache_stats(second).mapped_bytes > 0);
  OK(xpwc_close(second));
  FAILS(XPWC_STATUS_IN_USE, xpwc_close(first));
  opened_close(&o);
  OK(xpwc_close(first));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_close(first));
}

static void nothing_is_loaded_after_finalize(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  const xpwc_data_map map = model_callbacks(&m);
  model_forget_counts(&m);
  opened o = model_open(&m, cache, &map);
  const void* data = &cache;
  size_t size = 77;
  FAILS(XPWC_STATUS_FINALIZED, xpwc_session_load(o.session, "w0", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  FAILS(XPWC_STATUS_FINALIZED, xpwc_session_alias(o.session, &cache, sizeof(cache), m.tensors[0].content, NULL));

  OK(xpwc_session_finalize(o.session)); // again
  require_session_names(o.session, "w0b0 w1b1 w2b2 ");
  const char* const* names = NULL;
  size_t count = 0;
  OK(xpwc_session_names(o.session, &names, &count));
  REQUIRE(m.tensors[0].gets == 1 && m.tensors[0].releases == 1);
  opened_close(&o);
  REQUIRE(count == LAYERS && strcmp(names[2], "w2b2") == 0); // they are the host's
  xpwc_names_free(names);
  OK(xpwc_close(cache));
}

static void a_provider_stays_where_it_is_until_the_end(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  xpwc_session session;
  OK(xpwc_session_begin(cache, NULL, &session));
  struct xnn_weights_cache_provider *provider, *again;
  OK(xpwc_session_provider(session, &provider));
  REQUIRE(provider->look_up != NULL && provider->reserve_space != NULL && provider->look_up_or_insert != NULL);
  REQUIRE(!provider->is_finalized(provider->context));
  OK(xpwc_session_check(session));
  OK(xpwc_session_finalize(session));
  OK(xpwc_session_check(session));
  REQUIRE(provider->is_finalized(provider->context));
  OK(xpwc_session_provider(session, &again));
  REQUIRE(again == provider);
  OK(xpwc_session_end(session));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_provider(session, &again));
  REQUIRE(again == NULL);
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_end(session));
  OK(xpwc_close(cache));
}

// A host that gives up between loading and creating the runtime.
static void an_abandoned_session_releases_everything_at_its_end(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  for (int finalize = 0; finalize < 2; finalize++) {
    model_forget_counts(&m);
    const xpwc_data_map map = model_callbacks(&m);
    xpwc_session session;
    OK(xpwc_session_begin(cache, &map, &session));
    const void* data[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
      OK(xpwc_session_load(session, m.tensors[i].name, NULL, &data[i], NULL));
      const void* again = NULL;
      OK(xpwc_session_load(session, m.tensors[i].name, NULL, &again, NULL));
      REQUIRE(again == data[i]);
    }
    FAILS(XPWC_STATUS_NOT_EAGER, xpwc_session_alias(session, path, 1, data[2], "converted")); // there is nothing yet to copy
    if (finalize) {
      OK(xpwc_session_finalize(session));
      require_session_names(session, ""); // nothing was packed
    }
    OK(xpwc_session_end(session));
    for (int i = 0; i < TENSORS; i++) {
      REQUIRE(m.tensors[i].gets == 1 && m.tensors[i].releases == 1 && m.tensors[i].fills == 0);
    }
  }
  OK(xpwc_close(cache));
}

// What packing alone reads can go at finalize, though nothing was packed.
static void what_is_for_packing_only_goes_at_finalize(void) {
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  model_forget_counts(&m);
  const xpwc_data_map map = model_callbacks(&m);
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void* data = NULL;
  xpwc_load_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  OK(xpwc_session_load(session, "w0", &options, &data, NULL));
  options.flags = XPWC_LOAD_PACK_ONLY;
  OK(xpwc_session_load(session, "b0", &options, &data, NULL));
  options.flags = XPWC_LOAD_EAGER;
  OK(xpwc_session_load(session, "w1", &options, &data, NULL));
  REQUIRE(m.tensors[2].fills == 1 && memcmp(data, m.tensors[2].content, m.tensors[2].size) == 0);
  OK(xpwc_session_load(session, "w1", &options, &data, NULL));
  REQUIRE(m.tensors[2].fills == 1);
  OK(xpwc_session_finalize(session));
  REQUIRE(m.tensors[0].releases == 0 && m.tensors[1].releases == 1 && m.tensors[2].releases == 0);
  OK(xpwc_session_end(session));
  REQUIRE(m.tensors[0].releases == 1 && m.tensors[1].releases == 1 && m.tensors[2].releases == 1);
  REQUIRE(m.tensors[2].fills == 1);
  OK(xpwc_close(cache));
}

// Weights under an address that load never gave, with and without an alias.
static void copies_have_a_name_with_an_alias(void) {
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  for (int round = 0; round < 5; round++) {
    const bool aliased = round > 0;
    const char* word = round < 3 ? "copied" : NULL;
    const xpwc_data_map map = model_callbacks(&m);
    xpwc_session session;
    OK(xpwc_session_begin(cache, &map, &session));
    const void* data[TENSORS];
    xpwc_load_options options;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.flags = XPWC_LOAD_EAGER;
    float copy[WIDTH * WIDTH];
    for (int i = 0; i < TENSORS; i++) {
      OK(xpwc_session_load(session, m.tensors[i].name, &options, &data[i], NULL));
    }
    memcpy(copy, data[4], sizeof(copy));
    FAILS(XPWC_STATUS_UNKNOWN_TENSOR, xpwc_session_alias(session, copy, sizeof(copy), copy, NULL));
    if (aliased) {
      OK(xpwc_session_alias(session, copy, sizeof(copy), data[4], word));
      OK(xpwc_session_alias(session, copy, sizeof(copy), data[4], word)); // twice is once
    }
    data[4] = copy;
    struct xnn_weights_cache_provider* provider;
    OK(xpwc_session_provider(session, &provider));
    xnn_runtime_t runtime = runtime_create(data, provider);
    OK(xpwc_session_finalize(session));
    const char* const* names;
    size_t count;
    OK(xpwc_session_names(session, &names, &count));
    REQUIRE(count == (size_t)(aliased ? LAYERS : LAYERS - 1));
    if (aliased) {
      REQUIRE(strncmp(names[2], "w2", 2) == 0);
    }
    xpwc_names_free(names);
    REQUIRE(cache_stats(cache).private_unnamed.entries == 1);
    REQUIRE(cache_stats(cache).packed.entries == (uint64_t)(LAYERS - 1 + aliased + (round >= 3))); // by the first with an alias
    runtime_infer(runtime, got);
    require_same_output(want, got);
    XNN(xnn_delete_runtime(runtime));
    OK(xpwc_session_end(session));
  }
  OK(xpwc_close(cache));
}

static void without_a_data_map_weights_are_private(void) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  const void* data[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    data[i] = m.tensors[i].content;
  }
  xpwc_session session;
  OK(xpwc_session_begin(cache, NULL, &session));
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));
  xnn_runtime_t runtime = runtime_create(data, provider);
  OK(xpwc_session_finalize(session));
  require_session_names(session, "");
  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.private_unnamed.entries == LAYERS && stats.private_unnamed.bytes == stats.private_bytes);
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  runtime_infer(runtime, got);
  require_same_output(want, got);
  XNN(xnn_delete_runtime(runtime));
  OK(xpwc_session_end(session));
  REQUIRE(cache_stats(cache).private_bytes == 0);
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  a_cache_stays_open_while_sessions_are();
  a_handle_is_in_use_by_its_own_sessions();
  nothing_is_loaded_after_finalize();
  a_provider_stays_where_it_is_until_the_end();
  an_abandoned_session_releases_everything_at_its_end();
  what_is_for_packing_only_goes_at_finalize();
  copies_have_a_name_with_an_alias();
  without_a_data_map_weights_are_private();
  model_free(&m);
  return 0;
}
