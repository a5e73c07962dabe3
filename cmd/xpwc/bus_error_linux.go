//go:build cgo && (amd64 || arm64)

package main

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction before;

// What faults in this program itself is for Go's runtime. What faults in a library, as in XNNPACK while it packs,
// nobody can catch: it is said in words, in place of a dump of the runtime's.
static void on_bus_error(int signal, siginfo_t* info, void* context) {
  const ucontext_t* at = context;
#if defined(__x86_64__)
  const void* faulted = (const void*) at->uc_mcontext.gregs[REG_RIP];
#else
  const void* faulted = (const void*) at->uc_mcontext.pc;
#endif
  Dl_info theirs, ours;
  if (!dladdr(faulted, &theirs) || !dladdr(&before, &ours) || theirs.dli_fbase == ours.dli_fbase) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  static const char said[] =
      "xpwc: a file was cut off or overwritten while it was in use, or its disk failed (SIGBUS); "
      "put a new file beside the old one and rename it (mv), then start again\n";
  if (write(STDERR_FILENO, said, sizeof(said) - 1) < 0) {
    // nobody listens
  }
  _exit(1);
}

static void say_bus_errors(void) {
  struct sigaction mine;
  memset(&mine, 0, sizeof(mine));
  mine.sa_sigaction = on_bus_error;
  if (sigaction(SIGBUS, NULL, &before) != 0) {
    return;
  }
  mine.sa_flags = before.sa_flags;
  mine.sa_mask = before.sa_mask;
  sigaction(SIGBUS, &mine, NULL);
}
*/
import "C"

// sayBusErrors has the process end in words when a library reads a mapped file where there is nothing any more.
func sayBusErrors() { C.say_bus_errors() }
