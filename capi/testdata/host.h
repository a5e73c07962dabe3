// What the hosts of these tests share: checks, and a model of fully connected layers whose data map counts what is
// asked of it. C99 and C++11.
#ifndef XPWC_TESTDATA_HOST_H
#define XPWC_TESTDATA_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xpwc.h>

// Checks. Whatever is not so ends the process with the line and what was expected.

#define REQUIRE(ok) ((ok) ? (void)0 : require_failed(__FILE__, __LINE__, #ok, "is not so"))
#define OK(call) require_ok(__FILE__, __LINE__, #call, call)
// The call fails with the status, and sets the message.
#define FAILS(status, call) (fail_on_purpose(), require_fails(__FILE__, __LINE__, #call, status, call))

#define XNN(call) REQUIRE((call) == xnn_status_success)

static inline void require_failed(const char* file, int line, const char* what, const char* got) {
  fflush(stdout);
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, got);
  fflush(stderr);
  _Exit(1);
}

static inline void require_ok(const char* file, int line, const char* call, xpwc_status status) {
  if (status != XPWC_STATUS_OK) {
    fprintf(stderr, "%s\n", xpwc_last_error());
    require_failed(file, line, call, xpwc_status_string(status));
  }
}

// A size that only the error of fail_on_purpose has in it. It has more digits than the random part of a temporary
// directory's name, which most errors have in them too.
#define SIZE_ON_PURPOSE 4711471147114711

static inline bool last_error_is_of_fail_on_purpose(void) {
  char size[32];
  snprintf(size, sizeof(size), "%lld", (long long)SIZE_ON_PURPOSE);
  return strstr(xpwc_last_error(), size) != NULL;
}

// Makes a call fail, so that the error of the next call can be distinguished from this one's.
static inline void fail_on_purpose(void) {
  uint8_t digest[16];
  REQUIRE(xpwc_digest(NULL, SIZE_ON_PURPOSE, digest) == XPWC_STATUS_INVALID_ARGUMENT);
  REQUIRE(last_error_is_of_fail_on_purpose());
}

static inline void require_fails(const char* file, int line, const char* call, xpwc_status want, xpwc_status got) {
  if (got != want) {
    require_failed(file, line, call, xpwc_status_string(got));
  }
  if (xpwc_last_error()[0] == '\0' || last_error_is_of_fail_on_purpose()) {
    require_failed(file, line, call, "xpwc_last_error has no word of it");
  }
}

// The model.

enum { WIDTH = 48, LAYERS = 3, TENSORS = 2 * LAYERS };

typedef struct tensor {
  char name[8];  // w0, b0, w1, ...
  float* content;
  size_t size;  // in bytes
  char stamp[16];
  uint8_t digest[16];
  bool computed;  // given as something to fill in
  bool eager;
  bool retain;
  int gets, fills, evictions, releases;
} tensor;

typedef struct model {
  tensor tensors[TENSORS];
} model;

static inline void fill_with_floats(float* to, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * UINT32_C(1664525) + UINT32_C(1013904223);
    to[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
  }
}

// Another salt gives other weights. The first layer has stamps, the second digests, and its weights are computed.
static inline void model_make(model* m, uint32_t salt) {
  XNN(xnn_initialize(NULL));
  memset(m, 0, sizeof(*m));
  for (int i = 0; i < TENSORS; i++) {
    tensor* t = &m->tensors[i];
    const size_t count = i % 2 == 0 ? WIDTH * WIDTH : WIDTH;
    snprintf(t->name, sizeof(t->name), "%c%d", "wb"[i % 2], i / 2);
    t->size = count * sizeof(float);
    t->content = (float*)malloc(t->size + XNN_EXTRA_BYTES);
    REQUIRE(t->content != NULL);
    fill_with_floats(t->content, count, salt * 1000 + (uint32_t)i);
    t->computed = i == 2;
    if (i / 2 == 0) {
      snprintf(t->stamp, sizeof(t->stamp), "%u:%d", (unsigned)salt, i);
    }
    OK(xpwc_digest(t->content, t->size, t->digest));
  }
}

static inline void model_free(model* m) {
  for (int i = 0; i < TENSORS; i++) {
    free(m->tensors[i].content);
  }
}

static inline void model_forget_counts(model* m) {
  for (int i = 0; i < TENSORS; i++) {
    m->tensors[i].gets = m->tensors[i].fills = m->tensors[i].evictions = m->tensors[i].releases = 0;
  }
}

// Its data map.

static inline xpwc_status tensor_fill(void* context, void* to, size_t size) {
  tensor* t = (tensor*)context;
  REQUIRE(size == t->size);
  memcpy(to, t->content, size);
  t->fills++;
  return XPWC_STATUS_OK;
}

// Called from any thread.
static inline void tensor_evict(void* context, const void* data, size_t size) {
  tensor* t = (tensor*)context;
  REQUIRE(data == (t->computed ? NULL : t->content));
  REQUIRE(size == t->size);
  __atomic_fetch_add(&t->evictions, 1, __ATOMIC_SEQ_CST);
}

static inline void tensor_release(void* context, const void* data, size_t size) {
  tensor* t = (tensor*)context;
  REQUIRE(data == (t->computed ? NULL : t->content));
  REQUIRE(size == t->size);
  t->releases++;
}

static inline void tensor_describe(tensor* t, xpwc_tensor* to) {
  to->name = t->name;
  to->size = t->size;
  if (t->computed) {
    to->fill = tensor_fill;
  } else {
    to->data = t->content;
  }
  to->evict = tensor_evict;
  to->release = tensor_release;
  to->context = t;
  to->source = "host.h";
  to->stamp = t->stamp;
  to->digest = t->name[1] == '1' ? t->digest : NULL;
}

static inline xpwc_status model_get(void* context, const char* name, xpwc_tensor* to) {
  model* m = (model*)context;
  for (int i = 0; i < TENSORS; i++) {
    tensor* t = &m->tensors[i];
    if (strcmp(t->name, name) == 0) {
      REQUIRE(to->struct_size == sizeof(*to) && to->data == NULL && to->size == 0 && to->fill == NULL);
      REQUIRE(to->evict == NULL && to->release == NULL && to->context == NULL && to->source == NULL && to->stamp == NULL && to->digest == NULL);
      t->gets++;
      tensor_describe(t, to);
      return XPWC_STATUS_OK;
    }
  }
  return XPWC_STATUS_UNKNOWN_TENSOR;
}

static inline xpwc_data_map model_callbacks(model* m) {
  xpwc_data_map map;
  memset(&map, 0, sizeof(map));
  map.struct_size = sizeof(map);
  map.get = model_get;
  map.context = m;
  return map;
}

static inline xpwc_data_map model_table(model* m, xpwc_tensor table[TENSORS]) {
  memset(table, 0, TENSORS * sizeof(*table));
  for (int i = 0; i < TENSORS; i++) {
    table[i].struct_size = sizeof(*table);
    tensor_describe(&m->tensors[i], &table[i]);
  }
  xpwc_data_map map;
  memset(&map, 0, sizeof(map));
  map.struct_size = sizeof(map);
  map.tensors = table;
  map.tensor_count = TENSORS;
  return map;
}

// Its runtime.

// How it is packed. dims must stay there.
static inline xpwc_packing linear_packing(const size_t dims[2]) {
  xpwc_packing packing;
  memset(&packing, 0, sizeof(packing));
  packing.struct_size = sizeof(packing);
  packing.operator_type = XPWC_OPERATOR_FULLY_CONNECTED;
  packing.dim_count = 2;
  packing.dims = dims;
  packing.input.datatype = packing.kernel.datatype = packing.bias.datatype = packing.output.datatype = xnn_datatype_fp32;
  return packing;
}

// Creates the runtime of a subgraph, which is deleted.
static inline xnn_runtime_t subgraph_finish(xnn_subgraph_t subgraph, xnn_weights_cache_t provider) {
  xnn_workspace_t workspace = NULL;
  XNN(xnn_create_workspace(&workspace));
  xnn_runtime_t runtime = NULL;
  XNN(xnn_create_runtime_v4(subgraph, provider, workspace, NULL, 0, &runtime));
  XNN(xnn_release_workspace(workspace));
  XNN(xnn_delete_subgraph(subgraph));
  return runtime;
}

// Creates the runtime from these tensors, and without a cache if the provider is NULL.
static inline xnn_runtime_t runtime_create(const void* const data[TENSORS], xnn_weights_cache_t provider) {
  xnn_subgraph_t subgraph = NULL;
  XNN(xnn_create_subgraph(2, 0, &subgraph));
  const size_t row[] = {1, WIDTH};
  const size_t matrix[] = {WIDTH, WIDTH};
  const size_t bias[] = {WIDTH};
  uint32_t in, out, w, b;
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &in));
  for (int i = 0; i < LAYERS; i++) {
    const bool last = i == LAYERS - 1;
    XNN(xnn_define_tensor_value(
        subgraph, xnn_datatype_fp32, 2, row, NULL, last ? 1 : XNN_INVALID_VALUE_ID, last ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0, &out));
    XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, matrix, data[2 * i], XNN_INVALID_VALUE_ID, 0, &w));
    XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 1, bias, data[2 * i + 1], XNN_INVALID_VALUE_ID, 0, &b));
    XNN(xnn_define_fully_connected(subgraph, -1e30f, 1e30f, in, w, b, out, 0));
    in = out;
  }
  return subgraph_finish(subgraph, provider);
}

// Runs a runtime on its input, external value 0, to its output, external value 1.
static inline void runtime_invoke(xnn_runtime_t runtime, float* in, float* out) {
  struct xnn_external_value values[2];
  values[0].id = 0;
  values[0].data = in;
  values[1].id = 1;
  values[1].data = out;
  XNN(xnn_reshape_runtime(runtime));
  XNN(xnn_setup_runtime_v2(runtime, 2, values));
  XNN(xnn_invoke_runtime(runtime));
}

// Runs the model's on a fixed input.
static inline void runtime_infer(xnn_runtime_t runtime, float output[WIDTH]) {
  float in[WIDTH + XNN_EXTRA_BYTES / sizeof(float)];
  float out[WIDTH + XNN_EXTRA_BYTES / sizeof(float)];
  fill_with_floats(in, sizeof(in) / sizeof(*in), 7);
  runtime_invoke(runtime, in, out);
  memcpy(output, out, WIDTH * sizeof(*out));
}

// What the model gives without this library.
static inline void model_infer_plain(const model* m, float output[WIDTH]) {
  const void* data[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    data[i] = m->tensors[i].content;
  }
  xnn_runtime_t runtime = runtime_create(data, NULL);
  runtime_infer(runtime, output);
  XNN(xnn_delete_runtime(runtime));
}

static inline void require_same_output(const float want[WIDTH], const float got[WIDTH]) {
  REQUIRE(memcmp(want, got, WIDTH * sizeof(*want)) == 0);
}

// A model whose runtime exists, with a session of a cache.
typedef struct opened {
  xpwc_session session;
  xnn_runtime_t runtime;
} opened;

// Loads its tensors, and describes how its weights are packed.
static inline void model_load(const model* m, xpwc_session session, const void* data[TENSORS]) {
  const size_t matrix[] = {WIDTH, WIDTH};
  const xpwc_packing packing = linear_packing(matrix);
  for (int i = 0; i < TENSORS; i++) {
    const tensor* t = &m->tensors[i];
    xpwc_load_options options;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.flags = (t->eager ? (uint32_t)XPWC_LOAD_EAGER : 0) | (t->retain ? (uint32_t)XPWC_LOAD_RETAIN : 0);
    options.packing = i % 2 == 0 ? &packing : NULL;
    size_t size = 0;
    OK(xpwc_session_load(session, t->name, &options, &data[i], &size));
    REQUIRE(size == t->size);
    REQUIRE(t->computed || data[i] == t->content);
  }
}

// Begins a session and creates the runtime, but does not finalize.
static inline opened model_begin(const model* m, xpwc_cache cache, const xpwc_data_map* map) {
  opened o;
  memset(&o, 0, sizeof(o));
  OK(xpwc_session_begin(cache, map, &o.session));
  const void* data[TENSORS];
  model_load(m, o.session, data);
  struct xnn_weights_cache_provider* provider = NULL;
  OK(xpwc_session_provider(o.session, &provider));
  REQUIRE(provider != NULL);
  o.runtime = runtime_create(data, provider);
  return o;
}

static inline opened model_open(const model* m, xpwc_cache cache, const xpwc_data_map* map) {
  opened o = model_begin(m, cache, map);
  OK(xpwc_session_finalize(o.session));
  return o;
}

// The names of the packed weights that the runtime uses are these, each with a space after it.
static inline void require_session_names(xpwc_session session, const char* want) {
  const char* const* names = NULL;
  size_t count = 77;
  OK(xpwc_session_names(session, &names, &count));
  char all[1024] = "";
  for (size_t i = 0; i < count; i++) {
    snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s ", names[i]);
  }
  REQUIRE(strcmp(all, want) == 0);
  xpwc_names_free(names);
}

static inline void opened_close(opened* o) {
  XNN(xnn_delete_runtime(o->runtime));
  OK(xpwc_session_end(o->session));
}

// Opens, infers and closes.
static inline void model_run(model* m, xpwc_cache cache, float output[WIDTH]) {
  const xpwc_data_map map = model_callbacks(m);
  opened o = model_open(m, cache, &map);
  runtime_infer(o.runtime, output);
  opened_close(&o);
}

static inline void require_right(model* m, xpwc_cache cache) {
  float want[WIDTH], got[WIDTH];
  model_infer_plain(m, want);
  model_run(m, cache, got);
  require_same_output(want, got);
}

// Uses the library once, with the cache at a path.
static inline void use_library(const char* path) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  model m;
  model_make(&m, 1);
  require_right(&m, cache);
  model_free(&m);
  OK(xpwc_close(cache));
}

static inline xpwc_stats cache_stats(xpwc_cache cache) {
  xpwc_stats stats;
  memset(&stats, 0, sizeof(stats));
  stats.struct_size = sizeof(stats);
  OK(xpwc_cache_stats(cache, &stats));
  return stats;
}

// Overwrites the header of a cache file except the magic.
static inline void damage_cache(const char* path) {
  FILE* f = fopen(path, "r+b");
  REQUIRE(f != NULL);
  REQUIRE(fseek(f, 8, SEEK_SET) == 0);
  for (int i = 8; i < 4096; i++) {
    REQUIRE(fputc(0xa5, f) != EOF);
  }
  REQUIRE(fclose(f) == 0);
}

#endif
