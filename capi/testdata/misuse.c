// misuse DIRECTORY
//
// Gives every function arguments that it must refuse: NULL, sizes of 0, values that it does not know. What it returns through
// pointers is zero then.
#include "host.h"

static char path[4096];

static void strings(void) {
  REQUIRE(strcmp(xpwc_last_error(), "") == 0);
  REQUIRE(strcmp(xpwc_version(), XPWC_VERSION) == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_OK), "XPWC_OK") == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_IN_USE), "XPWC_IN_USE") == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_INTERNAL), "XPWC_INTERNAL") == 0);
  const int odd[] = {-1, 21, 1000, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
    const char* text = xpwc_status_string((xpwc_status)odd[i]);
    REQUIRE(text != NULL && text[0] != '\0');
  }
  for (int i = 0; i <= XPWC_INTERNAL; i++) {
    REQUIRE(strncmp(xpwc_status_string((xpwc_status)i), "XPWC_", 5) == 0);
    for (int j = 0; j < i; j++) {
      REQUIRE(strcmp(xpwc_status_string((xpwc_status)i), xpwc_status_string((xpwc_status)j)) != 0);
    }
  }
}

static void refuses_options(xpwc_status status, const xpwc_options* options) {
  xpwc_cache cache = {77};
  FAILS(status, xpwc_open(path, options, &cache));
  REQUIRE(cache.id == 0);
}

static void opening(void) {
  xpwc_cache cache = {77};
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_open(NULL, NULL, &cache));
  REQUIRE(cache.id == 0);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_open(path, NULL, NULL));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_open(NULL, NULL, NULL));

  const xpwc_options good = {.struct_size = sizeof(good)};
  xpwc_options o = good;
  o.struct_size = 0;
  refuses_options(XPWC_INVALID_ARGUMENT, &o);
  for (int bit = 4; bit < 32; bit++) {
    o = good;
    o.flags = UINT32_C(1) << bit;
    refuses_options(XPWC_INVALID_ARGUMENT, &o);
  }
  const int odd[] = {-1, 4, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
    o = good;
    o.verify = (xpwc_verify)odd[i];
    refuses_options(XPWC_INVALID_ARGUMENT, &o);
    o = good;
    o.trailer_version = (uint32_t)odd[i];
    refuses_options(XPWC_INVALID_ARGUMENT, &o);
    o = good;
    o.log_level = (xpwc_log_level)odd[i];
    refuses_options(XPWC_INVALID_ARGUMENT, &o);
  }

  // A directory that is none, a directory in the file's place, and a file of somebody else's.
  o = good;
  cache.id = 77;
  FAILS(XPWC_SYSTEM_ERROR, xpwc_open("/nowhere/cache", &o, &cache));
  REQUIRE(cache.id == 0);
  REQUIRE(strstr(xpwc_last_error(), "/nowhere") != NULL);
  cache.id = 77;
  FAILS(XPWC_NOT_CACHE, xpwc_open("/", &o, &cache));
  REQUIRE(cache.id == 0);
}

// Values at the ends of what is allowed.
static void extremes(void) {
  xpwc_options o = {.struct_size = sizeof(o), .writer_wait_ms = INT64_MAX, .max_bytes = UINT64_MAX};
  for (int i = 0; i < 2; i++) {
    xpwc_cache cache = {0};
    OK(xpwc_open(path, &o, &cache));
    model m;
    model_make(&m, 1);
    require_right(&m, cache);
    model_free(&m);
    OK(xpwc_close(cache));
    o.writer_wait_ms = INT64_MIN;
    o.max_bytes = 1;
  }
}

static void cache_functions(xpwc_cache cache) {
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_cache_stats(cache, NULL));
  xpwc_stats stats;
  memset(&stats, 0xaa, sizeof(stats));
  stats.struct_size = 0;
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_cache_stats(cache, &stats));

  const char* const* names = (const char* const*)path;
  size_t count = 77;
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_cache_names(cache, NULL, &count));
  REQUIRE(count == 0);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_cache_names(cache, &names, NULL));
  REQUIRE(names == NULL);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_cache_names(cache, NULL, NULL));
  xpwc_names_free(NULL);
}

static void refuses_data(xpwc_cache cache, const xpwc_data_map* map) {
  xpwc_session session = {77};
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_begin(cache, map, &session));
  REQUIRE(session.id == 0);
}

static void begin(xpwc_cache cache) {
  model m;
  model_make(&m, 1);
  xpwc_tensor table[TENSORS];
  xpwc_data_map map = model_table(&m, table);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_begin(cache, &map, NULL));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_begin(cache, NULL, NULL));

  map.struct_size = 0;
  refuses_data(cache, &map);
  map = model_table(&m, table);
  map.tensors = NULL;
  refuses_data(cache, &map);
  map = model_table(&m, table);
  table[0].struct_size = 0;
  refuses_data(cache, &map);
  map = model_table(&m, table);
  table[3].name = NULL;
  refuses_data(cache, &map);
  map = model_table(&m, table);
  map.tensor_count = SIZE_MAX / sizeof(*table) + 2; // does not fit into memory
  refuses_data(cache, &map);

  // What was refused is not released.
  for (int i = 0; i < TENSORS; i++) {
    REQUIRE(m.tensors[i].releases == 0);
  }
  model_free(&m);
}

static void refuses_load(xpwc_session session, const char* name, const xpwc_load_options* options) {
  const void* data = path;
  size_t size = 77;
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_load(session, name, options, &data, &size));
  REQUIRE(data == NULL && size == 0);
}

static void session_functions(xpwc_cache cache) {
  model m;
  model_make(&m, 1);
  const xpwc_data_map map = model_callbacks(&m);
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void* data = NULL;
  size_t size = 77;

  refuses_load(session, NULL, NULL);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_load(session, "w0", NULL, NULL, &size));
  REQUIRE(size == 0);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_load(session, NULL, NULL, NULL, NULL));
  const xpwc_load_options good = {.struct_size = sizeof(good)};
  xpwc_load_options o = good;
  o.struct_size = 0;
  refuses_load(session, "w0", &o);
  for (int bit = 4; bit < 32; bit++) {
    o = good;
    o.flags = UINT32_C(1) << bit;
    refuses_load(session, "w0", &o);
  }
  o = good;
  o.flags = XPWC_LOAD_QUANTIZED;
  o.quantization_size = 16; // of nothing
  refuses_load(session, "w0", &o);
  REQUIRE(m.tensors[0].gets == 0);
  OK(xpwc_session_load(session, "w0", NULL, &data, NULL)); // size may be NULL
  REQUIRE(data == m.tensors[0].content);

  size = 77;
  FAILS(XPWC_UNKNOWN_TENSOR, xpwc_session_load(session, "w9", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  REQUIRE(strstr(xpwc_last_error(), "w9") != NULL);
  FAILS(XPWC_UNKNOWN_TENSOR, xpwc_session_load(session, "", NULL, &data, &size));

  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_alias(session, NULL, 1, m.tensors[0].content, "word"));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_alias(session, path, 1, NULL, "word"));
  FAILS(XPWC_UNKNOWN_TENSOR, xpwc_session_alias(session, path, 1, m.tensors[1].content, "word")); // which was not loaded
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_session_provider(session, NULL));

  OK(xpwc_session_finalize(session, NULL, NULL));
  OK(xpwc_session_end(session));
  REQUIRE(m.tensors[0].gets == 1 && m.tensors[0].releases == 1);
  model_free(&m);

  OK(xpwc_session_begin(cache, NULL, &session));
  data = path;
  size = 77;
  FAILS(XPWC_NO_DATA_MAP, xpwc_session_load(session, "w0", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  OK(xpwc_session_end(session));
}

static void digests(void) {
  uint8_t digest[16];
  uint8_t nothing[16] = {0};
  memset(digest, 0xaa, sizeof(digest));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_digest(NULL, 1, digest));
  REQUIRE(memcmp(digest, nothing, sizeof(digest)) == 0);
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_digest(path, 1, NULL));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_digest(NULL, 0, NULL));
  OK(xpwc_digest(NULL, 0, digest));

  char stamp[XPWC_FILE_STAMP_SIZE];
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_file_stamp(0, NULL, sizeof(stamp)));
  FAILS(XPWC_INVALID_ARGUMENT, xpwc_file_stamp(0, stamp, 0));
  const int bad[] = {-1, INT32_MIN, 1000000};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    stamp[0] = 'x';
    FAILS(XPWC_SYSTEM_ERROR, xpwc_file_stamp(bad[i], stamp, sizeof(stamp)));
    REQUIRE(stamp[0] == '\0');
  }
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  strings();
  opening();
  extremes();
  digests();
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  cache_functions(cache);
  begin(cache);
  session_functions(cache);
  model m;
  model_make(&m, 2);
  require_right(&m, cache); // it has not suffered
  model_free(&m);
  OK(xpwc_close(cache));
  return 0;
}
