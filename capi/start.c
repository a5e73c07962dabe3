// Starts Go's runtime with the first call that needs it. In the library built by scripts/build-lib nothing else starts
// it, so a program that is only linked has no thread and memory of Go.
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

// Go's constructor of the library, under another name. Go programs such as the tests do not have it.
extern void xpwc_go_start(int argc, char** argv) __attribute__((weak));

static _Atomic(pid_t) started_in; // the process with Go's threads, which a forked child lacks; 0 until the start
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

// A fork waits for a start in progress. A fork handler of the host may start Go: its thread has the lock.
static _Thread_local bool forking;
static void lock_for_fork(void) {
  pthread_mutex_lock(&start_lock);
  forking = true;
}
static void unlock_after_fork(void) {
  forking = false;
  pthread_mutex_unlock(&start_lock);
}

static bool watching;
static void watch_forks(void) { watching = pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork) == 0; }

static xpwc_status fail(xpwc_status status, const char* message, int error) {
  const char* colon = error == 0 ? "" : ": ";
  snprintf(xpwc_last_error_buffer(), xpwc_last_error_size, "%s%s%s", message, colon, error == 0 ? "" : strerror(error));
  return status;
}

static void* wait_for_lock(void* lock) {
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

// Go's runtime ends the process if its start lacks resources. So this allocates them first, and frees them. A later
// call still ends the process if the runtime itself lacks memory or a thread.
static xpwc_status check_resources(void) {
  // The runtime reserves tables of the address space, and threads have stacks; part of this is writable memory.
  const size_t reserved = (size_t)2 << 30, writable = (size_t)128 << 20;
  void* space = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) {
    return fail(
        XPWC_STATUS_OUT_OF_MEMORY, "Go's runtime cannot start: it needs 2 GiB of address space (ulimit -v)", errno);
  }
  const int memory = mprotect(space, writable, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t threads[8];
  size_t count = 0;
  int error = memory;
  pthread_mutex_lock(&lock);
  while (error == 0 && count < sizeof(threads) / sizeof(*threads)) {
    error = pthread_create(&threads[count], NULL, wait_for_lock, &lock);
    count += error == 0;
  }
  pthread_mutex_unlock(&lock);
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

// Settings of the process that Go's runtime changes, as they were.
static struct sigaction urgent;
static struct rlimit files; // RLIMIT_NOFILE; zero until the start

bool xpwc_restore(void) {
  bool restored = files.rlim_max == 0 || setrlimit(RLIMIT_NOFILE, &files) == 0;
  if ((urgent.sa_flags & SA_SIGINFO) != 0 || urgent.sa_handler != SIG_DFL) {
    urgent.sa_flags |= SA_ONSTACK; // it may arrive on a goroutine's stack, which is small
    restored = sigaction(SIGURG, &urgent, NULL) == 0 && restored;
  }
  return restored;
}

// The arguments of a program at its start: argv, environment and auxiliary vector. The environment is empty: the host's
// GODEBUG, GOMAXPROCS and GOGC do not concern this library.
static char name[] = "xpwc";
static struct {
  char* argv[2];
  char* environment[1];
  unsigned long facts[16];
} kernel_facts = {.argv = {name}};

static void copy_facts(void) {
  const unsigned long wanted[] = {AT_PAGESZ, AT_HWCAP, AT_HWCAP2, AT_SECURE, AT_RANDOM, AT_SYSINFO_EHDR};
  unsigned long* dst = kernel_facts.facts; // ends with AT_NULL, which is zero
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
    errno = 0;
    const unsigned long value = getauxval(wanted[i]);
    if (value != 0 || errno == 0) {
      *dst++ = wanted[i];
      *dst++ = value;
    }
  }
}

static xpwc_status start(void) {
  const xpwc_status status = check_resources();
  if (status != XPWC_STATUS_OK || xpwc_go_start == NULL) {
    return status;
  }
  copy_facts();
  sigaction(SIGURG, NULL, &urgent);
  getrlimit(RLIMIT_NOFILE, &files);
  // Go's threads inherit the mask, so that the host's handlers, which may need a large stack, run on the host's
  // threads. Go interrupts its threads with SIGURG.
  sigset_t mask, saved;
  sigfillset(&mask);
  sigdelset(&mask, SIGURG);
  pthread_sigmask(SIG_SETMASK, &mask, &saved);
  xpwc_go_start(1, kernel_facts.argv);
  pthread_sigmask(SIG_SETMASK, &saved, NULL);
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

// Sets SA_ONSTACK on a profiler's handler, which may be installed at any time and rarely has it. Without it the handler
// runs on the small stack of a goroutine, since Go unblocks SIGPROF on all its threads.
static void set_profiler_onstack(void) {
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
  set_profiler_onstack();
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
