// reasons DIRECTORY
//
// Starts a model on a cache in the directory, and asks why each start was not all mapping.
#include "host.h"

// start loads the model in a cache of its own, and returns the figures with the explanation.
static xpwc_stats start(const char* path, model* m, char text[XPWC_EXPLANATION_SIZE]) {
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  const xpwc_data_map map = model_callbacks(m);
  opened o = model_open(m, cache, &map);
  OK(xpwc_session_explain(o.session, text, XPWC_EXPLANATION_SIZE));
  char cut[8];
  OK(xpwc_session_explain(o.session, cut, sizeof(cut)));
  REQUIRE(strlen(cut) == sizeof(cut) - 1 && strncmp(cut, text, sizeof(cut) - 1) == 0);
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_explain(o.session, NULL, 1));
  FAILS(XPWC_STATUS_INVALID_ARGUMENT, xpwc_session_explain(o.session, cut, 0));
  const xpwc_stats stats = cache_stats(cache);
  opened_close(&o);
  FAILS(XPWC_STATUS_INVALID_HANDLE, xpwc_session_explain(o.session, cut, sizeof(cut)));
  REQUIRE(cut[0] == '\0');
  OK(xpwc_close(cache));
  return stats;
}

static uint64_t misses(const xpwc_stats* stats) {
  uint64_t all = 0;
  for (int i = XPWC_REASON_IN_MEMORY; i <= XPWC_REASON_KEY; i++) {
    all += stats->reasons[i].entries;
  }
  return all;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  char path[4096], text[XPWC_EXPLANATION_SIZE];
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  model m, trained;
  model_make(&m, 1);
  model_make(&trained, 2);
  for (int i = 0; i < TENSORS; i++) { // all of the second has stamps
    snprintf(trained.tensors[i].stamp, sizeof(trained.tensors[i].stamp), "2:%d", i);
  }

  xpwc_stats stats = start(path, &m, text);
  REQUIRE(stats.reasons[XPWC_REASON_NO_FILE].entries == LAYERS);
  REQUIRE(stats.reasons[XPWC_REASON_NO_FILE].bytes == stats.packed.bytes);
  REQUIRE(misses(&stats) == stats.misses);
  REQUIRE(strstr(text, "0 of 3 weights are found. 3 (") == text);
  REQUIRE(strstr(text, "are packed: there was no file") != NULL);

  stats = start(path, &m, text); // the second layer has a digest, and so only the third is read
  REQUIRE(strstr(text, "3 of 3 weights are found (") == text);
  REQUIRE(misses(&stats) == 0 && stats.reasons[XPWC_REASON_UNSTAMPED].entries == 2);
  REQUIRE(strstr(text, "tensors (") != NULL && strstr(text, "are read in full: the tensor has no stamp.") != NULL);

  stats = start(path, &trained, text);
  REQUIRE(stats.reasons[XPWC_REASON_CONTENT].entries == LAYERS && misses(&stats) == stats.misses);
  stats = start(path, &trained, text);
  for (int i = 0; i < XPWC_REASONS; i++) {
    REQUIRE(stats.reasons[i].entries == 0);
  }
  REQUIRE(strcmp(text + strlen(text) - 2, ").") == 0 && strstr(text, "3 of 3 weights are found (") == text);

  REQUIRE(strcmp(xpwc_reason_name(XPWC_REASON_NO_FILE), "no-file") == 0);
  REQUIRE(strstr(xpwc_reason_name((xpwc_reason)XPWC_REASONS), "unknown") != NULL);
  model_free(&m);
  model_free(&trained);
  return 0;
}
