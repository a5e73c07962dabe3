// last_error
//
// Each thread has its own last error, which successes do not touch.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "host.h"

enum { THREADS = 8, ROUNDS = 50 };

static pthread_barrier_t barrier;

static void* fail_in_own_words(void* context) {
  const int me = *(const int*)context;
  REQUIRE(strcmp(xpwc_last_error(), "") == 0); // nothing has failed on this thread
  char name[64], path[80];
  snprintf(name, sizeof(name), "/of thread %d", me);
  snprintf(path, sizeof(path), "%s/cache", name);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    xpwc_cache cache;
    REQUIRE(xpwc_open(path, NULL, &cache) == XPWC_STATUS_SYSTEM_ERROR);
    pthread_barrier_wait(&barrier);
    REQUIRE(strstr(xpwc_last_error(), name) != NULL);
    OK(xpwc_open("", NULL, &cache));
    OK(xpwc_close(cache));
    pthread_barrier_wait(&barrier);
    REQUIRE(strstr(xpwc_last_error(), name) != NULL);
  }
  return NULL;
}

// A message longer than any buffer ends in time, and with a NUL.
static void say_much(void) {
  const size_t length = 100000;
  char* path = (char*)malloc(length + 1);
  REQUIRE(path != NULL);
  memset(path, 'x', length);
  path[0] = '/';
  path[length] = '\0';
  xpwc_cache cache;
  REQUIRE(xpwc_open(path, NULL, &cache) == XPWC_STATUS_SYSTEM_ERROR);
  REQUIRE(strstr(xpwc_last_error(), "xxxxxxxx") != NULL);
  REQUIRE(strlen(xpwc_last_error()) < 2 * length);
  free(path);
}

// Bytes that are no UTF-8, and formats of printf, are only bytes.
static void say_odd_things(void) {
  xpwc_cache cache;
  REQUIRE(xpwc_open("/no\xff\xfe%s%n%d/x", NULL, &cache) == XPWC_STATUS_SYSTEM_ERROR);
  REQUIRE(strstr(xpwc_last_error(), "%s%n%d") != NULL);
}

int main(void) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    REQUIRE(pthread_create(&threads[i], NULL, fail_in_own_words, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    REQUIRE(pthread_join(threads[i], NULL) == 0);
  }
  REQUIRE(strcmp(xpwc_last_error(), "") == 0);
  say_much();
  say_odd_things();
  pthread_barrier_destroy(&barrier);
  return 0;
}
