// Starts Go's runtime with the first call that needs it. In the library that scripts/build-lib makes, nothing else does:
// a program that is only linked has no thread and no memory of it.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host.h"

// What would be a constructor of the library. It is not there in a program of Go's, as the tests are.
extern void xpwc_go_start(int argc, char** argv) __attribute__((weak));

static _Atomic(pid_t) started_in; // the process that has Go's threads, which a child of it has not; 0 before the start
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

// A fork waits for a start. A handler of the host's that runs meanwhile may start Go: its thread has the lock.
static _Thread_local bool forking;
static void before_fork(void) {
  pthread_mutex_lock(&start_lock);
  forking = true;
}
static void after_fork(void) {
  forking = false;
  pthread_mutex_unlock(&start_lock);
}

static bool watching;
static void watch_forks(void) { watching = pthread_atfork(before_fork, after_fork, after_fork) == 0; }

static xpwc_status fail(xpwc_status status, const char* message, int error) {
  const char* colon = error == 0 ? "" : ": ";
  snprintf(xpwc_last_error_buffer(), xpwc_last_error_size, "%s%s%s", message, colon, error == 0 ? "" : strerror(error));
  return status;
}

static void* wait_for_all(void* lock) {
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

// Go's runtime ends the process where its start cannot have what it needs. So that is asked for before, and given back.
// What a call needs afterwards, and cannot have, still ends the process: threads and memory of the runtime itself.
static xpwc_status afford(void) {
  // It reserves tables of all addresses, and threads have stacks; some of that is memory that can be written to.
  const size_t reserved = (size_t)2 << 30, writable = (size_t)128 << 20;
  void* space = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) {
    return fail(
        XPWC_STATUS_OUT_OF_MEMORY, "Go's runtime cannot start: it needs 2 GiB of address space (ulimit -v)", errno);
  }
  const int memory = mprotect(space, writable, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
  pthread_t threads[8];
  size_t count = 0;
  int error = memory;
  pthread_mutex_lock(&all);
  while (error == 0 && count < sizeof(threads) / sizeof(*threads)) {
    error = pthread_create(&threads[count], NULL, wait_for_all, &all);
    count += error == 0;
  }
  pthread_mutex_unlock(&all);
  while (count > 0) {
    pthread_join(threads[--count], NULL);
  }
  munmap(space, reserved);
  if (memory != 0) {
    return fail(XPWC_STATUS_OUT_OF_MEMORY, "Go's runtime cannot start: it needs 128 MiB of memory (ulimit -d)", memory);
  }
  if (error != 0) {
    return fail(
        XPWC_STATUS_SYSTEM_ERROR, "Go's runtime cannot start: it needs 8 threads (ulimit -u) and their stacks (ulimit -v)",
        error);
  }
  return XPWC_STATUS_OK;
}

// What Go's runtime changes of the process for itself, as it was before.
static struct sigaction urgent;
static struct rlimit files; // that are open; all zero until it was asked for

bool xpwc_restore(void) {
  bool restored = files.rlim_max == 0 || setrlimit(RLIMIT_NOFILE, &files) == 0;
  if ((urgent.sa_flags & SA_SIGINFO) != 0 || urgent.sa_handler != SIG_DFL) {
    urgent.sa_flags |= SA_ONSTACK; // it may arrive on a goroutine's stack, which is small
    restored = sigaction(SIGURG, &urgent, NULL) == 0 && restored;
  }
  return restored;
}

// What the kernel gives a program: arguments, the environment and facts about the machine. The environment is empty: what
// the host's says to programs written in Go (GODEBUG, GOMAXPROCS, GOGC) is not for this library.
static char name[] = "xpwc";
static struct {
  char* argv[2];
  char* environment[1];
  unsigned long facts[16];
} given = {.argv = {name}};

static void give_facts(void) {
  const unsigned long wanted[] = {AT_PAGESZ, AT_HWCAP, AT_HWCAP2, AT_SECURE, AT_RANDOM, AT_SYSINFO_EHDR};
  unsigned long* to = given.facts; // what is not set is AT_NULL, the end
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
    errno = 0;
    const unsigned long value = getauxval(wanted[i]);
    if (value != 0 || errno == 0) {
      *to++ = wanted[i];
      *to++ = value;
    }
  }
}

static xpwc_status start(void) {
  const xpwc_status status = afford();
  if (status != XPWC_STATUS_OK || xpwc_go_start == NULL) {
    return status;
  }
  give_facts();
  sigaction(SIGURG, NULL, &urgent);
  getrlimit(RLIMIT_NOFILE, &files);
  // Go's threads inherit the mask: the host's handlers, which may need a large stack, run on the host's threads. Go
  // interrupts its own threads with SIGURG.
  sigset_t others, before;
  sigfillset(&others);
  sigdelset(&others, SIGURG);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  xpwc_go_start(1, given.argv);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return XPWC_STATUS_OK;
}

static xpwc_status wake(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  if (!watching) {
    return fail(XPWC_STATUS_OUT_OF_MEMORY, "Go's runtime cannot start", ENOMEM);
  }
  xpwc_status status = XPWC_STATUS_OK;
  if (!forking) {
    pthread_mutex_lock(&start_lock);
  }
  if (atomic_load(&started_in) == 0) {
    status = start();
    if (status == XPWC_STATUS_OK) {
      atomic_store(&started_in, getpid());
    }
  }
  if (!forking) {
    pthread_mutex_unlock(&start_lock);
  }
  return status;
}

// A profiler's handler may be installed at any time, and rarely asks for the signal stack that it needs on a thread that
// is in Go, where the stack is small. Go unblocks SIGPROF on all its threads.
static void give_profiler_a_stack(void) {
  struct sigaction action;
  if (sigaction(SIGPROF, NULL, &action) == 0 && (action.sa_flags & SA_ONSTACK) == 0 && action.sa_handler != SIG_DFL &&
      action.sa_handler != SIG_IGN) {
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGPROF, &action, NULL);
  }
}

xpwc_status xpwc_ready(void) {
  const pid_t process = atomic_load_explicit(&started_in, memory_order_acquire);
  if (process == 0) {
    return wake();
  }
  if (process != getpid()) {
    return fail(
        XPWC_STATUS_FORKED, "this process is a child of fork, and its parent had used the library: call it after exec", 0);
  }
  give_profiler_a_stack();
  return XPWC_STATUS_OK;
}

xpwc_status xpwc_ready_for(uint64_t handle) {
  if (atomic_load_explicit(&started_in, memory_order_acquire) != 0 || xpwc_go_start == NULL) {
    return xpwc_ready();
  }
  snprintf(
      xpwc_last_error_buffer(), xpwc_last_error_size, "the handle was closed, or never was one: %#llx",
      (unsigned long long)handle);
  return XPWC_STATUS_INVALID_HANDLE;
}
