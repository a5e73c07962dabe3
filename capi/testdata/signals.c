// signals handle before|after|before-urgent DIRECTORY
// signals die-by SIGNAL on-any-thread|on-a-thread-that-called DIRECTORY
//
// Signals other than faults: the host's handlers, and what it ignores, are as they were (handle), and what it leaves
// alone ends it as it ends any process (die-by). The handlers are installed before the library starts or after; of
// before and before-urgent only the second has one for SIGURG, with which Go's runtime interrupts its own threads.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static char path[4096];

static const int handled[] = {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE, SIGPROF, SIGIO, SIGWINCH, SIGURG};
static int handled_count = sizeof(handled) / sizeof(*handled);

static volatile sig_atomic_t counts[NSIG];
static volatile sig_atomic_t last_value;

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)context;
  counts[signal]++;
  last_value = info->si_value.sival_int;
}

static void install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < handled_count; i++) {
    sigaction(handled[i], &action, NULL);
  }
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  sigaction(SIGHUP, &action, NULL);
  sigaction(SIGTSTP, &action, NULL);
}

static void install_before(int argc, char** argv, char** environment) {
  (void)environment;
  if (argc > 2 && strcmp(argv[1], "handle") == 0 && strncmp(argv[2], "before", 6) == 0) {
    handled_count -= strcmp(argv[2], "before") == 0;
    install();
  }
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**, char**) = install_before;

static void require_count(int signal, int before, const char* how) {
  const bool interrupted = signal == SIGURG && counts[signal] > before; // by Go's runtime too
  if (counts[signal] != before + 1 && !interrupted) {
    char text[128];
    snprintf(text, sizeof(text), "signal %d (%s): the handler was called %d times", signal, strsignal(signal), (int)counts[signal] - before);
    require_failed(__FILE__, __LINE__, how, text);
  }
}

// Each signal, sent to this thread, to this process with a value, or provoked, arrives once.
static void every_signal_arrives(void) {
  for (int i = 0; i < handled_count; i++) {
    const int signal = handled[i];
    int before = counts[signal];
    REQUIRE(pthread_kill(pthread_self(), signal) == 0);
    require_count(signal, before, "sent to a thread");
    before = counts[signal];
    const union sigval value = {.sival_int = 1000 + i};
    REQUIRE(pthread_sigqueue(pthread_self(), signal, value) == 0);
    require_count(signal, before, "queued");
    REQUIRE(last_value == value.sival_int);
  }
  REQUIRE(raise(SIGHUP) == 0 && raise(SIGTSTP) == 0); // ignored

  int before = counts[SIGCHLD], status = 0;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    _exit(0);
  }
  while (waitpid(child, &status, 0) != child) {
    REQUIRE(errno == EINTR);
  }
  while (counts[SIGCHLD] == before) { // any thread may get it
    sched_yield();
  }
  require_count(SIGCHLD, before, "of a child");

  int ends[2];
  before = counts[SIGPIPE];
  REQUIRE(pipe(ends) == 0 && close(ends[0]) == 0);
  REQUIRE(write(ends[1], "x", 1) == -1 && errno == EPIPE);
  require_count(SIGPIPE, before, "of a broken pipe");
  REQUIRE(close(ends[1]) == 0);
}

static void* call_and_signal(void* context) {
  every_signal_arrives();
  sigset_t before, after;
  REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
  use_library(path);
  REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
  for (int signal = 1; signal < NSIG; signal++) {
    REQUIRE(sigismember(&before, signal) == sigismember(&after, signal));
  }
  every_signal_arrives();
  return context;
}

static xpwc_status signal_and_get(void* context, const char* name, xpwc_tensor* to) {
  every_signal_arrives();
  return model_get(context, name, to);
}

static int handle(const char* when) {
  if (strcmp(when, "after") == 0) {
    use_library(path);
    install();
  }
  if (strcmp(when, "before-urgent") != 0) { // which works from the first call on
    every_signal_arrives();
  }
  use_library(path);
  every_signal_arrives();
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, call_and_signal, NULL) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);

  // Inside a callback.
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  model m;
  model_make(&m, 1);
  xpwc_data_map map = model_callbacks(&m);
  map.get = signal_and_get;
  opened o = model_open(&m, cache, &map);
  opened_close(&o);
  model_free(&m);
  OK(xpwc_close(cache));

  // The dispositions of all but faults, SIGPIPE and SIGURG are as the host left them. (SA_ONSTACK may have come.)
  for (int signal = 1; signal < 32; signal++) {
    struct sigaction now;
    if (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGPIPE || signal == SIGURG) {
      continue;
    }
    REQUIRE(sigaction(signal, NULL, &now) == 0);
    bool is_handled = false;
    for (int i = 0; i < handled_count; i++) {
      is_handled = is_handled || handled[i] == signal;
    }
    const bool ignored = signal == SIGHUP || signal == SIGTSTP;
    const bool as_it_was = is_handled ? now.sa_sigaction == on_signal : now.sa_handler == (ignored ? SIG_IGN : SIG_DFL);
    if (!as_it_was) {
      require_failed(__FILE__, __LINE__, strsignal(signal), "has another disposition");
    }
  }
  return 0;
}

static int to_die_by;

static void* die(void* context) {
  if (strcmp((const char*)context, "on-a-thread-that-called") == 0) {
    use_library(path);
  }
  if (to_die_by == SIGPIPE) {
    int ends[2];
    REQUIRE(pipe(ends) == 0 && close(ends[0]) == 0);
    const ssize_t n = write(ends[1], "x", 1);
    REQUIRE(n == -1);
  } else if (to_die_by == SIGSEGV) {
    const volatile uintptr_t address = 8;
    *(volatile char*)address = 1;
  } else if (to_die_by == SIGABRT) {
    abort();
  } else {
    REQUIRE(kill(getpid(), to_die_by) == 0);
    pause();
  }
  return NULL;
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 4);
  snprintf(path, sizeof(path), "%s/cache", argv[argc - 1]);
  if (strcmp(argv[1], "handle") == 0) {
    return handle(argv[2]);
  }
  const struct rlimit no_core = {0, 0};
  REQUIRE(setrlimit(RLIMIT_CORE, &no_core) == 0);
  to_die_by = atoi(argv[2]);
  use_library(path);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, die, argv[3]) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
  return 0;
}
