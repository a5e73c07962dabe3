// failing_callbacks
//
// Callbacks of the data map that fail, or give tensors that are none.
#include "host.h"

enum { last_status = XPWC_STATUS_OTHER_XNNPACK };

static xpwc_cache cache;

// A data map of one tensor, w, as the test at hand wants it.
typedef struct one {
  xpwc_status get_status;
  xpwc_status fill_status;
  xpwc_tensor tensor;
  int gets, fills, releases;
} one;

static xpwc_status one_fill(void* context, void* to, size_t size) {
  one* o = (one*)context;
  o->fills++;
  memset(to, 0x3c, size);
  return o->fill_status;
}

static void one_release(void* context, const void* data, size_t size) {
  (void)data;
  (void)size;
  ((one*)context)->releases++;
}

static xpwc_status one_get(void* context, const char* name, xpwc_tensor* to) {
  one* o = (one*)context;
  REQUIRE(strcmp(name, "w") == 0);
  o->gets++;
  *to = o->tensor;
  return o->get_status;
}

static one make(xpwc_status get, xpwc_status fill) {
  one o;
  memset(&o, 0, sizeof(o));
  o.get_status = get;
  o.fill_status = fill;
  o.tensor.struct_size = sizeof(o.tensor);
  o.tensor.size = WIDTH * WIDTH * sizeof(float);
  o.tensor.fill = one_fill;
  o.tensor.release = one_release;
  return o;
}

static xpwc_session begin(one* o) {
  o->tensor.context = o;
  xpwc_data_map map;
  memset(&map, 0, sizeof(map));
  map.struct_size = sizeof(map);
  map.get = one_get;
  map.context = o;
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  return session;
}

static const xpwc_load_options eager = {.struct_size = sizeof(eager), .flags = XPWC_LOAD_EAGER};

static void refuses(xpwc_session session, const xpwc_load_options* options, xpwc_status want) {
  const void* data = &cache;
  size_t size = 77;
  FAILS(want, xpwc_session_load(session, "w", options, &data, &size));
  REQUIRE(data == NULL && size == 0);
  if (want != XPWC_STATUS_INVALID_HANDLE) {
    REQUIRE(strstr(xpwc_last_error(), "w") != NULL);
  }
}

// A status that the header knows comes back, any other is XPWC_STATUS_CALLBACK_FAILED.
static void failing_with_every_status(void) {
  const int odd[] = {-1, last_status + 1, 1000, INT32_MIN, INT32_MAX};
  for (int i = 1; i <= last_status + (int)(sizeof(odd) / sizeof(*odd)); i++) {
    const bool known = i <= last_status;
    const xpwc_status status = (xpwc_status)(known ? i : odd[i - last_status - 1]);
    const xpwc_status want = known ? status : XPWC_STATUS_CALLBACK_FAILED;

    one o = make(status, XPWC_STATUS_OK);
    xpwc_session session = begin(&o);
    refuses(session, NULL, want);
    OK(xpwc_session_end(session));
    REQUIRE(o.gets == 1 && o.fills == 0 && o.releases == 0); // it gave nothing

    o = make(XPWC_STATUS_OK, status);
    session = begin(&o);
    refuses(session, &eager, want);
    refuses(session, &eager, want); // it is not asked again
    REQUIRE(o.gets == 1 && o.fills == 1);
    (void)xpwc_session_finalize(session);
    OK(xpwc_session_end(session));
    REQUIRE(o.gets == 1 && o.fills == 1 && o.releases == 1);
  }
}

// The content is computed when XNNPACK is about to pack it; that this failed shows at the latest in finalize.
static void failing_while_the_runtime_is_created(void) {
  one o = make(XPWC_STATUS_OK, XPWC_STATUS_BUSY);
  xpwc_session session = begin(&o);
  const void* w = NULL;
  OK(xpwc_session_load(session, "w", NULL, &w, NULL));
  REQUIRE(o.fills == 0);
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));

  xnn_subgraph_t subgraph = NULL;
  XNN(xnn_create_subgraph(2, 0, &subgraph));
  const size_t row[] = {1, WIDTH};
  const size_t matrix[] = {WIDTH, WIDTH};
  uint32_t in, out, weights;
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &in));
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, NULL, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &out));
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, matrix, w, XNN_INVALID_VALUE_ID, 0, &weights));
  XNN(xnn_define_fully_connected(subgraph, -1, 1, in, weights, XNN_INVALID_VALUE_ID, out, 0));
  xnn_workspace_t workspace = NULL;
  XNN(xnn_create_workspace(&workspace));
  xnn_runtime_t runtime = NULL;
  if (xnn_create_runtime_v4(subgraph, provider, workspace, NULL, 0, &runtime) == xnn_status_success) {
    XNN(xnn_delete_runtime(runtime));
  }
  XNN(xnn_release_workspace(workspace));
  XNN(xnn_delete_subgraph(subgraph));

  FAILS(XPWC_STATUS_BUSY, xpwc_session_finalize(session));
  REQUIRE(strstr(xpwc_last_error(), "w") != NULL);
  REQUIRE(o.fills == 1);
  refuses(session, NULL, XPWC_STATUS_FINALIZED); // it is finalized in any case
  OK(xpwc_session_end(session));
  REQUIRE(o.gets == 1 && o.fills == 1 && o.releases == 1);
}

static void giving_tensors_that_are_none(void) {
  char content[64] = {0};
  struct {
    const char* what;
    const void* data;
    size_t size;
    bool fill;
  } cases[] = {
      {"no content", NULL, 64, false},
      {"data and fill", content, sizeof(content), true},
      {"more than any memory", NULL, SIZE_MAX, true},
      {"more than any memory, with slack", NULL, SIZE_MAX - 200, true},
      {"more than an address space", NULL, SIZE_MAX / 2, true},
      {"data of more than an address space", content, SIZE_MAX, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    one o = make(XPWC_STATUS_OK, XPWC_STATUS_OK);
    o.tensor.data = cases[i].data;
    o.tensor.size = cases[i].size;
    o.tensor.fill = cases[i].fill ? one_fill : NULL;
    xpwc_session session = begin(&o);
    const void* data = &cache;
    size_t size = 77;
    fail_on_purpose();
    const xpwc_status status = xpwc_session_load(session, "w", NULL, &data, &size);
    if (status == XPWC_STATUS_OK || xpwc_last_error()[0] == '\0' || last_error_is_of_fail_on_purpose()) {
      require_failed(__FILE__, __LINE__, cases[i].what, xpwc_status_string(status));
    }
    REQUIRE(status == XPWC_STATUS_INVALID_ARGUMENT || (i >= 2 && (status == XPWC_STATUS_OUT_OF_MEMORY || status == XPWC_STATUS_SYSTEM_ERROR)));
    REQUIRE(data == NULL && size == 0);
    OK(xpwc_session_finalize(session));
    OK(xpwc_session_end(session));
    if (o.releases != 1) { // it was given with XPWC_STATUS_OK
      require_failed(__FILE__, __LINE__, cases[i].what, o.releases == 0 ? "not released" : "released more than once");
    }
    REQUIRE(o.fills == 0);
  }
}

// A tensor of no bytes is one.
static void an_empty_tensor(void) {
  char content[1] = {0};
  for (int i = 0; i < 2; i++) {
    one o = make(XPWC_STATUS_OK, XPWC_STATUS_OK);
    o.tensor.size = 0;
    if (i == 0) {
      o.tensor.data = content;
      o.tensor.fill = NULL;
    }
    xpwc_session session = begin(&o);
    const void* data = NULL;
    size_t size = 77;
    OK(xpwc_session_load(session, "w", &eager, &data, &size));
    REQUIRE(size == 0);
    OK(xpwc_session_end(session));
    REQUIRE(o.releases == 1);
  }
}

// A tensor's strings and digest are copied.
static void identities_do_not_outlive_the_call(void) {
  model m;
  model_make(&m, 1);
  for (int round = 0; round < 2; round++) {
    char source[] = "source", stamp[] = "stamp";
    uint8_t digest[16];
    memcpy(digest, m.tensors[0].digest, sizeof(digest));
    one o = make(XPWC_STATUS_OK, XPWC_STATUS_OK);
    o.tensor.data = m.tensors[0].content;
    o.tensor.fill = NULL;
    o.tensor.source = source;
    o.tensor.stamp = stamp;
    o.tensor.digest = digest;
    xpwc_session session = begin(&o);
    const void* data[TENSORS];
    OK(xpwc_session_load(session, "w", NULL, &data[0], NULL));
    memset(source, round, sizeof(source) - 1);
    memset(stamp, round, sizeof(stamp) - 1);
    memset(digest, round, sizeof(digest));
    for (int i = 1; i < TENSORS; i++) {
      data[i] = m.tensors[i].content;
    }
    struct xnn_weights_cache_provider* provider;
    OK(xpwc_session_provider(session, &provider));
    xnn_runtime_t runtime = runtime_create(data, provider);
    OK(xpwc_session_finalize(session));
    XNN(xnn_delete_runtime(runtime));
    OK(xpwc_session_end(session));
  }
  model_free(&m);
}

int main(void) {
  XNN(xnn_initialize(NULL));
  OK(xpwc_open("", NULL, &cache));
  failing_with_every_status();
  failing_while_the_runtime_is_created();
  giving_tensors_that_are_none();
  an_empty_tensor();
  identities_do_not_outlive_the_call();
  OK(xpwc_close(cache));
  return 0;
}
