// sanitized nothing|overflow|leak|race
//
// Mistakes of a host's that a sanitizer must see, if it sees what goes on between host and library.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "host.h"

// The host claims more room than there is.
static void overflow(void) {
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  const size_t size = sizeof(xpwc_stats);
  void* small = malloc(size / 2);
  REQUIRE(small != NULL);
  memcpy(small, &size, sizeof(size));
  (void)xpwc_cache_stats(cache, (xpwc_stats*)small);
  free(small);
  OK(xpwc_close(cache));
}

// What the library handed out is not given back. (Often, since the last addresses may still lie somewhere.)
static void leak(void) {
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  for (int i = 0; i < 1000; i++) {
    const char* const* names;
    size_t count;
    OK(xpwc_cache_names(cache, &names, &count));
  }
  OK(xpwc_close(cache));
}

static int shared;

static void* change(void* barrier) {
  (void)xpwc_version();
  pthread_barrier_wait((pthread_barrier_t*)barrier);
  for (int i = 0; i < 100000; i++) {
    shared++;
  }
  return NULL;
}

static void race(void) {
  pthread_barrier_t barrier;
  pthread_t threads[2];
  REQUIRE(pthread_barrier_init(&barrier, NULL, 2) == 0);
  for (int i = 0; i < 2; i++) {
    REQUIRE(pthread_create(&threads[i], NULL, change, &barrier) == 0);
  }
  for (int i = 0; i < 2; i++) {
    REQUIRE(pthread_join(threads[i], NULL) == 0);
  }
  pthread_barrier_destroy(&barrier);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  if (strcmp(argv[1], "overflow") == 0) {
    overflow();
  } else if (strcmp(argv[1], "leak") == 0) {
    leak();
  } else if (strcmp(argv[1], "race") == 0) {
    for (int i = 0; i < 200; i++) { // often: what one thread waits for may order the other's access, by chance
      race();
    }
  }
  return 0;
}
