// handles DIRECTORY
//
// Every function with handles that are zero, closed before, reused, or made up.
#include "host.h"

static const char junk[] = "junk";

static void refuses_cache(xpwc_cache cache) {
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_close(cache));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_cache_save(cache));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_cache_compact(cache));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_cache_trim(cache));

  const char* const* names = (const char* const*)junk;
  size_t count = 77;
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_cache_names(cache, &names, &count));
  REQUIRE(names == NULL && count == 0);

  xpwc_stats stats;
  memset(&stats, 0xaa, sizeof(stats));
  stats.struct_size = sizeof(stats);
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_cache_stats(cache, &stats));
  for (size_t i = sizeof(stats.struct_size); i < sizeof(stats); i++) {
    REQUIRE(((const char*)&stats)[i] == 0);
  }

  xpwc_session session = {77};
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_begin(cache, NULL, &session));
  REQUIRE(session.id == 0);
}

static void refuses_session(xpwc_session session) {
  const void* data = junk;
  size_t size = 77;
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_load(session, "w0", NULL, &data, &size));
  REQUIRE(data == NULL && size == 0);
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_alias(session, junk, 1, junk + 1, NULL));
  struct xnn_weights_cache_provider* provider = (struct xnn_weights_cache_provider*)&size;
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_provider(session, &provider));
  REQUIRE(provider == NULL);
  const char* const* names = (const char* const*)junk;
  size_t count = 77;
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_finalize(session));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_names(session, &names, &count));
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_check(session));
  REQUIRE(names == NULL && count == 0);
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_end(session));
}

static void refuses(uint64_t id) {
  const xpwc_cache cache = {id};
  refuses_cache(cache);
  const xpwc_session session = {id};
  refuses_session(session);
}

enum { MANY = 500 };

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  char path[4096];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  const uint64_t made_up[] = {0, 1, 2, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof(made_up) / sizeof(*made_up); i++) {
    refuses(made_up[i]);
  }

  xpwc_cache closed;
  OK(xpwc_open("", NULL, &closed));
  xpwc_session ended;
  OK(xpwc_session_begin(closed, NULL, &ended));
  FAILS(XPWC_STATUS_IN_USE, xpwc_close(closed));
  OK(xpwc_session_end(ended));
  refuses_session(ended);
  OK(xpwc_close(closed));
  refuses_cache(closed);
  refuses_session(ended);

  // Others take their places.
  static xpwc_cache caches[MANY];
  static xpwc_session sessions[MANY];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < MANY; i++) {
      OK(xpwc_open(i % 2 == 0 ? "" : path, NULL, &caches[i]));
      OK(xpwc_session_begin(caches[i], NULL, &sessions[i]));
      REQUIRE(caches[i].id != 0 && caches[i].id != closed.id);
      REQUIRE(sessions[i].id != 0 && sessions[i].id != ended.id);
      for (int j = 0; j < i; j++) {
        REQUIRE(caches[i].id != caches[j].id && sessions[i].id != sessions[j].id);
      }
    }
    refuses_cache(closed);
    refuses_session(ended);
    for (int i = 0; i < MANY; i++) {
      OK(xpwc_session_end(sessions[i]));
    }
    for (int i = 0; i < MANY; i++) {
      OK(xpwc_close(caches[i]));
    }
    for (int i = 0; i < MANY; i += 50) {
      refuses_cache(caches[i]);
      refuses_session(sessions[i]);
    }
    closed = caches[round];
    ended = sessions[round];
  }

  // Near misses of handles that are valid, and any number at all.
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  xpwc_session session;
  OK(xpwc_session_begin(cache, NULL, &session));
  uint64_t random = UINT64_C(88172645463325252);
  for (int i = 0; i < 1000; i++) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    uint64_t id = i < 64 ? cache.id ^ UINT64_C(1) << i : i < 128 ? session.id ^ UINT64_C(1) << (i - 64) : random;
    if (id != cache.id && id != session.id) {
      refuses(id);
    }
  }
  OK(xpwc_session_end(session));
  OK(xpwc_close(cache));
  return 0;
}
