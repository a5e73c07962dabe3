// newer DIRECTORY
//
// Compiled, as the library is, with a header whose key has fingerprint_id and whose provider has alias_data. Drives the
// provider as an XNNPACK of that header would.
#include "host.h"

static model m;

#ifdef PLAYS_NEWER_XNNPACK // with what shows the age of one, where the program is linked with an older one
#ifdef __cplusplus
extern "C" {
#endif
void xnn_compute_fingerprint_id_value(void);
void xnn_weights_cache_alias_data(void);
void xnn_compute_fingerprint_id_value(void) {}
void xnn_weights_cache_alias_data(void) {}
#ifdef __cplusplus
}
#endif
#endif

static struct xnn_weights_cache_look_up_key key_of(const void* kernel, const void* bias, uint32_t fingerprint_id) {
  struct xnn_weights_cache_look_up_key key;
  memset(&key, 0, sizeof(key));
  key.seed = 17;
  key.kernel = kernel;
  key.bias = bias;
  key.fingerprint_id = fingerprint_id;
  return key;
}

enum { PACKED = WIDTH * WIDTH * sizeof(float) };

// Returns where the packed weights of a key are.
static const char* find_or_pack(
    struct xnn_weights_cache_provider* provider, struct xnn_weights_cache_look_up_key key, char content, bool warm) {
  size_t offset = provider->look_up(provider->context, &key);
  REQUIRE((offset == SIZE_MAX) == !warm);
  if (!warm) {
    void* space = provider->reserve_space(provider->context, PACKED);
    REQUIRE(space != NULL);
    memset(space, content, PACKED);
    offset = provider->look_up_or_insert(provider->context, &key, space, PACKED);
    REQUIRE(offset != SIZE_MAX);
  }
  return (const char*)provider->offset_to_addr(provider->context, offset);
}

// Creates a "runtime" with packed weights for three fingerprints of one kernel, and for a copy. warm: they are there.
static void create(xpwc_cache cache, bool warm) {
  const xpwc_data_map map = model_callbacks(&m);
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void *kernel, *bias;
  xpwc_load_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  xpwc_packing packing; // it is not packed by an XNNPACK
  memset(&packing, 0, sizeof(packing));
  packing.struct_size = sizeof(packing);
  packing.opaque = "letters";
  packing.opaque_size = 7;
  options.packing = &packing;
  options.flags = XPWC_LOAD_BELIEVE;
  OK(xpwc_session_load(session, "w0", &options, &kernel, NULL));
  OK(xpwc_session_load(session, "b0", NULL, &bias, NULL));
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));
  void* context = provider->context;
  REQUIRE(provider->alias_data != NULL);

  const char* at[3];
  for (uint32_t id = 0; id < 3; id++) {
    at[id] = find_or_pack(provider, key_of(kernel, bias, id), (char)('a' + (int)id), warm);
  }
  REQUIRE(at[0] != at[1] && at[1] != at[2] && at[0] != at[2]);

  // What is packed from a copy that XNNPACK reports is found again too.
  char copy_of_kernel[64], copy_of_bias[64];
  REQUIRE(provider->alias_data(context, copy_of_kernel, (void*)(uintptr_t)kernel) == xnn_status_success);
  REQUIRE(provider->alias_data(context, copy_of_bias, (void*)(uintptr_t)bias) == xnn_status_success);
  const char* copied = find_or_pack(provider, key_of(copy_of_kernel, copy_of_bias, 1), 'x', warm);

  REQUIRE(!provider->is_finalized(context));
  const char* const* names;
  size_t count;
  OK(xpwc_session_finalize(session));
  OK(xpwc_session_names(session, &names, &count));
  REQUIRE(provider->is_finalized(context));
  REQUIRE(count >= 1 && strncmp(names[0], "w0", 2) == 0);
  xpwc_names_free(names);
  for (int i = 0; i < PACKED; i++) {
    REQUIRE(at[0][i] == 'a' && at[1][i] == 'b' && at[2][i] == 'c' && copied[i] == 'x');
  }
  OK(xpwc_session_end(session));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model_make(&m, 1);
  for (int i = 0; i < 3; i++) {
    xpwc_cache cache;
    OK(xpwc_open(path, NULL, &cache));
    create(cache, i > 0);
    create(cache, true);
    REQUIRE(cache_stats(cache).packed.entries == (i == 0 ? 4 : 0));
    OK(xpwc_close(cache));
  }
  model_free(&m);
  return 0;
}
