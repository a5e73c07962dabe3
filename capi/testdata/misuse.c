// misuse DIRECTORY
//
// Gives every function arguments that it must refuse: NULL, sizes of 0, values that it does not know. What it returns
// through pointers is zero then.
#include "host.h"

static char path[4096];

static void strings(void) {
  REQUIRE(strcmp(xpwc_last_error(), "") == 0);
  REQUIRE(strcmp(xpwc_version(), XPWC_VERSION) == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_STATUS_OK), "XPWC_STATUS_OK") == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_STATUS_IN_USE), "XPWC_STATUS_IN_USE") == 0);
  REQUIRE(strcmp(xpwc_status_string(XPWC_STATUS_INTERNAL), "XPWC_STATUS_INTERNAL") == 0);
  const int odd[] = {-1, 21, 1000, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
    const char* text = xpwc_status_string((xpwc_status)odd[i]);
    REQUIRE(text != NULL && text[0] != '\0');
  }
  for (int i = 0; i <= XPWC_STATUS_INTERNAL; i++) {
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
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open(NULL, NULL, &cache));
  REQUIRE(cache.id == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open(path, NULL, NULL));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_open(NULL, NULL, NULL));

  const xpwc_options good = {.struct_size = sizeof(good)};
  xpwc_options o = good;
  o.struct_size = 0;
  refuses_options(XPWC_STATUS_INVALID_ARGUMENT, &o);
  for (int bit = 5; bit < 32; bit++) {
    o = good;
    o.flags = UINT32_C(1) << bit;
    refuses_options(XPWC_STATUS_INVALID_ARGUMENT, &o);
  }
  const int odd[] = {-1, 4, INT32_MIN, INT32_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
    o = good;
    o.verify = (uint32_t)odd[i];
    refuses_options(XPWC_STATUS_INVALID_ARGUMENT, &o);
    o = good;
    o.log_level = (uint32_t)odd[i];
    refuses_options(XPWC_STATUS_INVALID_ARGUMENT, &o);
  }

  // A directory that is none, a directory in the file's place, and a file of somebody else's.
  o = good;
  cache.id = 77;
  FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_open("/nowhere/cache", &o, &cache));
  REQUIRE(cache.id == 0);
  REQUIRE(strstr(xpwc_last_error(), "/nowhere") != NULL);
  cache.id = 77;
  FAILS(XPWC_STATUS_NOT_CACHE, xpwc_open("/", &o, &cache));
  REQUIRE(cache.id == 0);
}

// Values at the limits.
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
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_stats(cache, NULL));
  xpwc_stats stats;
  memset(&stats, 0xaa, sizeof(stats));
  stats.struct_size = 0;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_stats(cache, &stats));

  const char* const* names = (const char* const*)path;
  size_t count = 77;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_names(cache, NULL, &count));
  REQUIRE(count == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_names(cache, &names, NULL));
  REQUIRE(names == NULL);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_cache_names(cache, NULL, NULL));
  xpwc_names_free(NULL);
}

static void refuses_data(xpwc_cache cache, const xpwc_data_map* map) {
  xpwc_session session = {77};
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_begin(cache, map, &session));
  REQUIRE(session.id == 0);
}

static void begin(xpwc_cache cache) {
  model m;
  model_make(&m, 1);
  xpwc_tensor table[TENSORS];
  xpwc_data_map map = model_table(&m, table);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_begin(cache, &map, NULL));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_begin(cache, NULL, NULL));

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
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_load(session, name, options, &data, &size));
  REQUIRE(data == NULL && size == 0);
}

// The packing is refused, and the error names the member.
static void refuses_packing(xpwc_session session, const xpwc_packing* packing, const char* member) {
  const xpwc_load_options o = {.struct_size = sizeof(o), .packing = packing};
  refuses_load(session, "w0", &o);
  const char* error = xpwc_last_error();
  if (strstr(error, member) == NULL || strstr(error, "\"w0\"") == NULL) {
    require_failed(__FILE__, __LINE__, member, error);
  }
}

// Tries a packing with statements that make one member wrong.
#define REFUSES(member, statements)              \
  do {                                           \
    xpwc_packing p = good;                       \
    statements;                                  \
    refuses_packing(session, &p, member);        \
  } while (0)

static void packings(xpwc_session session) {
  enum { OUTPUTS = 4, INPUTS = 32 };
  static const size_t dims[] = {OUTPUTS, INPUTS, 1, 1, 1, 1, 1};
  static const float scales[OUTPUTS * INPUTS + 1] = {1, 1, 1, 1};
  static const uint16_t block_scales[OUTPUTS * INPUTS + 1] = {1, 1, 1, 1};
  static const float bias[OUTPUTS] = {1, 1, 1, 1};
  xpwc_packing good = linear_packing(dims);
  good.input.datatype = xnn_datatype_qdint8;
  good.input.non_batch_dims = 1;
  good.kernel.datatype = xnn_datatype_qcint8;
  good.kernel.scales = scales;
  good.kernel.scale_count = OUTPUTS;
  good.hidden_bias = bias;
  good.hidden_bias_size = sizeof(bias);

  xpwc_packing unsized = good;
  unsized.struct_size = 0;
  const xpwc_load_options o = {.struct_size = sizeof(o), .packing = &unsized};
  refuses_load(session, "w0", &o);
  REQUIRE(strstr(xpwc_last_error(), "packing.struct_size") != NULL);

  struct {
    xpwc_packing known;
    uint64_t more;
  } longer = {good, 1};
  longer.known.struct_size = sizeof(longer);
  const xpwc_load_options of_longer = {.struct_size = sizeof(of_longer), .packing = &longer.known};
  refuses_load(session, "w0", &of_longer);
  REQUIRE(strstr(xpwc_last_error(), "packing.struct_size") != NULL);

  const uint32_t odd[] = {6, 77, UINT32_MAX};
  for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
    REFUSES("operator_type", p.operator_type = odd[i]);
  }
  REFUSES("operator_type", p.operator_type = 0);
  REFUSES("operator_type", p.operator_type = 0; p.opaque = "x"; p.opaque_size = 1); // with a shape
  REFUSES("operator_type", memset(&p, 0, sizeof(p)); p.struct_size = sizeof(p)); // says nothing
  REFUSES("opaque", memset(&p, 0, sizeof(p)); p.struct_size = sizeof(p); p.opaque_size = 1); // of nothing
  REFUSES("opaque", p.opaque = "x"; p.opaque_size = 1);
  REFUSES("opaque", p.opaque_size = 1);
  for (int bit = 5; bit < 32; bit++) {
    REFUSES("flags", p.flags = UINT32_C(1) << bit);
  }

  REFUSES("dim_count", p.dim_count = 0);
  REFUSES("dim_count", p.dim_count = XNN_MAX_TENSOR_DIMS + 1);
  REFUSES("dim_count", p.dim_count = UINT32_MAX);
  REFUSES("dims", p.dims = NULL);
  REFUSES("dims", p.dims = (const size_t*)((const char*)dims + 1));
  const size_t none[] = {OUTPUTS, 0};
  REFUSES("dims[1]", p.dims = none);
  const size_t huge[] = {SIZE_MAX, INPUTS};
  REFUSES("dims[0]", p.dims = huge);
  const size_t product[] = {SIZE_MAX / 4, INPUTS};
  REFUSES("dims[1]", p.dims = product);

  REFUSES("input.datatype", p.input.datatype = 0);
  REFUSES("kernel.datatype", p.kernel.datatype = 0);
  REFUSES("output.datatype", p.output.datatype = 0);
  REFUSES("bias.datatype", p.bias.datatype = 256);
  REFUSES("kernel.datatype", p.kernel.datatype = UINT32_MAX);

  REFUSES("kernel.scales", p.kernel.scales = NULL);
  REFUSES("kernel.scales", p.kernel.scales = (const float*)(uintptr_t)16); // no address
  REFUSES("kernel.scales", p.kernel.scales = (const float*)((const char*)scales + 2));
  REFUSES("kernel.scales", p.kernel.scale_count = OUTPUTS * INPUTS + 1);
  REFUSES("kernel.scales", p.kernel.scale_count = SIZE_MAX);
  REFUSES("kernel.scale_count", p.kernel.scale_count = OUTPUTS - 1);
  REFUSES("kernel.scale_count", p.kernel.channel_dim = 1);
  REFUSES("kernel.channel_dim", p.kernel.channel_dim = 2);
  REFUSES("kernel.channel_dim", p.kernel.channel_dim = UINT32_MAX);
  REFUSES("input.scales", p.input.scale_count = 1);
  REFUSES("bias.scales", p.bias.scale_count = 1);
  REFUSES("output.block_scales", p.output.block_scale_count = 1);

  REFUSES("kernel.block_size", p.kernel.datatype = xnn_datatype_qbint4);
  REFUSES("kernel.block_scale_count", p.kernel.datatype = xnn_datatype_qbint4; p.kernel.block_size = 32;
          p.kernel.block_scales = block_scales; p.kernel.block_scale_count = OUTPUTS - 1);
  REFUSES("kernel.block_scales", p.kernel.block_scale_count = OUTPUTS);
  REFUSES("kernel.block_scales", p.kernel.block_scales = (const uint16_t*)((const char*)block_scales + 1);
          p.kernel.block_scale_count = OUTPUTS);
  REFUSES("kernel.block_scales", p.kernel.block_scales = block_scales; p.kernel.block_scale_count = OUTPUTS * INPUTS + 1);

  REFUSES("hidden_bias", p.hidden_bias = NULL);
  REFUSES("hidden_bias", p.hidden_bias_size = 0);
  REFUSES("hidden_bias", p.hidden_bias_size = SIZE_MAX);
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
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_load(session, "w0", NULL, NULL, &size));
  REQUIRE(size == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_load(session, NULL, NULL, NULL, NULL));
  const xpwc_load_options good = {.struct_size = sizeof(good)};
  xpwc_load_options o = good;
  o.struct_size = 0;
  refuses_load(session, "w0", &o);
  for (int bit = 5; bit < 32; bit++) {
    o = good;
    o.flags = UINT32_C(1) << bit;
    refuses_load(session, "w0", &o);
  }
  packings(session);
  REQUIRE(m.tensors[0].gets == 0);
  OK(xpwc_session_load(session, "w0", NULL, &data, NULL)); // size may be NULL
  REQUIRE(data == m.tensors[0].content);

  size = 77;
  FAILS(XPWC_STATUS_UNKNOWN_TENSOR, xpwc_session_load(session, "w9", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  REQUIRE(strstr(xpwc_last_error(), "w9") != NULL);
  FAILS(XPWC_STATUS_UNKNOWN_TENSOR, xpwc_session_load(session, "", NULL, &data, &size));

  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_alias(session, NULL, 1, m.tensors[0].content, "word"));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_alias(session, path, 1, NULL, "word"));
  FAILS(XPWC_STATUS_UNKNOWN_TENSOR, xpwc_session_alias(session, path, 1, m.tensors[1].content, "word")); // which was not loaded
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_provider(session, NULL));
  const char* const* names = (const char* const*)path;
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_names(session, &names, NULL));
  REQUIRE(names == NULL);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_names(session, NULL, &size));
  REQUIRE(size == 0);

  OK(xpwc_session_finalize(session));
  OK(xpwc_session_end(session));
  REQUIRE(m.tensors[0].gets == 1 && m.tensors[0].releases == 1);
  model_free(&m);

  OK(xpwc_session_begin(cache, NULL, &session));
  data = path;
  size = 77;
  FAILS(XPWC_STATUS_NO_DATA_MAP, xpwc_session_load(session, "w0", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  OK(xpwc_session_end(session));
}

static void digests(void) {
  uint8_t digest[16];
  uint8_t nothing[16] = {0};
  memset(digest, 0xaa, sizeof(digest));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_digest(NULL, 1, digest));
  REQUIRE(memcmp(digest, nothing, sizeof(digest)) == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_digest(path, 1, NULL));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_digest(NULL, 0, NULL));
  OK(xpwc_digest(NULL, 0, digest));

  char stamp[XPWC_FILE_STAMP_SIZE];
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_stamp(0, NULL, sizeof(stamp)));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_file_stamp(0, stamp, 0));
  const int bad[] = {-1, INT32_MIN, 1000000};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    stamp[0] = 'x';
    FAILS(XPWC_STATUS_SYSTEM_ERROR, xpwc_file_stamp(bad[i], stamp, sizeof(stamp)));
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
