// start linked DIRECTORY                    no thread and no memory before the first call that needs Go
// start files DIRECTORY                     the limit of open files is the host's, before and after
// start threads|space|memory DIRECTORY      a limit keeps Go's runtime from starting: an error, and no more once it is lifted
// start child DIRECTORY                     a child of a process that has not called the library calls it
// start handler prepare|parent|child first|failed|later DIRECTORY
//                                           the host's handler of forks calls it, which it had not before, or in vain, or had
// start profiled before|after DIRECTORY     a profiler's handler needs more stack than Go's code has, and does not say so
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static char path[4096];

// A figure of /proc/self/status.
static long status_of(const char* name) {
  FILE* f = fopen("/proc/self/status", "r");
  REQUIRE(f != NULL);
  char line[256];
  long value = -1;
  while (value < 0 && fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) {
      value = atol(line + strlen(name) + 1);
    }
  }
  REQUIRE(fclose(f) == 0 && value >= 0);
  return value;
}

static long kilobytes_before;

// Runs before the constructors of the program and of its libraries.
static void measure_before(int argc, char** argv, char** environment) {
  (void)argc;
  (void)argv;
  (void)environment;
  kilobytes_before = status_of("VmSize");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**, char**) = measure_before;

static void linked(void) {
  REQUIRE(strcmp(xpwc_status_string(XPWC_STATUS_FORKED), "XPWC_STATUS_FORKED") == 0);
  REQUIRE(strcmp(xpwc_version(), XPWC_VERSION) == 0 && xpwc_version_number() == XPWC_VERSION_NUMBER);
  REQUIRE(strcmp(xpwc_last_error(), "") == 0);
  xpwc_names_free(NULL);
  xpwc_cache none;
  memset(&none, 0, sizeof(none));
  REQUIRE(xpwc_close(none) == XPWC_STATUS_INVALID_HANDLE);
  REQUIRE(strstr(xpwc_last_error(), "the handle was closed, or never was one") != NULL);
  REQUIRE(status_of("Threads") == 1);
  REQUIRE(status_of("VmSize") < kilobytes_before + (64 << 10)); // XNNPACK's constructors have theirs
  use_library(path);
  REQUIRE(status_of("Threads") > 1);
  REQUIRE(status_of("VmSize") > kilobytes_before + (64 << 10));
}

static void fails_under(int resource, rlim_t to, xpwc_status want, const char* says) {
  struct rlimit limit;
  REQUIRE(getrlimit(resource, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = to;
  REQUIRE(setrlimit(resource, &limit) == 0);
  xpwc_cache cache;
  for (int i = 0; i < 2; i++) {
    cache.id = 77;
    REQUIRE(xpwc_open(path, NULL, &cache) == want);
    REQUIRE(cache.id == 0 && strstr(xpwc_last_error(), says) != NULL);
  }
  limit.rlim_cur = before;
  REQUIRE(setrlimit(resource, &limit) == 0);
}

static void limited(int resource, rlim_t to, xpwc_status want, const char* says) {
  fails_under(resource, to, want, says);
  use_library(path);
}

static void fails_without_space(void (*f)(int, rlim_t, xpwc_status, const char*)) {
  f(RLIMIT_AS, (rlim_t)(status_of("VmSize") + (256 << 10)) << 10, XPWC_STATUS_OUT_OF_MEMORY, "address space");
}

static void files(void) {
  struct rlimit limit, now;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max > 64);
  limit.rlim_cur = 64;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  use_library(path);
  REQUIRE(getrlimit(RLIMIT_NOFILE, &now) == 0);
  REQUIRE(now.rlim_cur == limit.rlim_cur && now.rlim_max == limit.rlim_max);
}

static void child(void) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  use_library(path);
  if (child != 0) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

static const char* handler; // that calls the library
static xpwc_status handler_got;

static void call_from(const char* which) {
  if (strcmp(which, handler) == 0) {
    xpwc_cache cache;
    handler_got = xpwc_open(path, NULL, &cache);
    if (handler_got == XPWC_STATUS_OK) {
      OK(xpwc_close(cache));
    }
  }
}
static void prepare_handler(void) { call_from("prepare"); }
static void parent_handler(void) { call_from("parent"); }
static void child_handler(void) {
  alarm(60);
  call_from("child");
}

static void called_from_a_handler(const char* which, const char* when) {
  handler = which;
  REQUIRE(pthread_atfork(prepare_handler, parent_handler, child_handler) == 0);
  const bool first = strcmp(when, "later") != 0;
  if (!first) {
    use_library(path);
  } else if (strcmp(when, "failed") == 0) {
    fails_without_space(fails_under);
  }
  const pid_t child = fork();
  REQUIRE(child >= 0);
  const bool without_go = child == 0 && (!first || strcmp(which, "prepare") == 0);
  REQUIRE(handler_got == (without_go && strcmp(which, "child") == 0 ? XPWC_STATUS_FORKED : XPWC_STATUS_OK));
  if (without_go) {
    xpwc_cache cache;
    REQUIRE(xpwc_open(path, NULL, &cache) == XPWC_STATUS_FORKED);
    return;
  }
  use_library(path);
  int status = 0;
  REQUIRE(child == 0 || (waitpid(child, &status, 0) == child && status == 0));
}

static volatile sig_atomic_t samples;

// Takes as much of the stack as a profiler that unwinds.
static void sample(int signal) {
  (void)signal;
  volatile char frames[16 << 10];
  for (size_t i = 0; i < sizeof(frames); i += 64) {
    frames[i] = 1;
  }
  samples++;
}

static void profiled(const char* when) {
  if (strcmp(when, "after") == 0) {
    use_library(path);
  }
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = sample;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
  const struct itimerval often = {{0, 1000}, {0, 1000}};
  REQUIRE(setitimer(ITIMER_PROF, &often, NULL) == 0);
  static char content[1 << 20];
  while (samples < 100) {
    uint8_t digest[16];
    OK(xpwc_digest(content, sizeof(content), digest));
    use_library(path);
  }
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 3);
  snprintf(path, sizeof(path), "%s/cache", argv[argc - 1]);
  if (strcmp(argv[1], "linked") == 0) {
    linked();
  } else if (strcmp(argv[1], "threads") == 0) {
    if (geteuid() == 0) { // whom the limit does not concern
      path[0] = 0; // the directory is not the other user's
      REQUIRE(setuid(54321) == 0);
    }
    limited(RLIMIT_NPROC, 1, XPWC_STATUS_SYSTEM_ERROR, "threads");
  } else if (strcmp(argv[1], "space") == 0) {
    fails_without_space(limited);
  } else if (strcmp(argv[1], "memory") == 0) {
    limited(RLIMIT_DATA, (rlim_t)(status_of("VmData") + (32 << 10)) << 10, XPWC_STATUS_OUT_OF_MEMORY, "memory");
  } else if (strcmp(argv[1], "files") == 0) {
    files();
  } else if (strcmp(argv[1], "child") == 0) {
    child();
  } else if (strcmp(argv[1], "handler") == 0) {
    called_from_a_handler(argv[2], argv[3]);
  } else {
    profiled(argv[2]);
  }
  return 0;
}
