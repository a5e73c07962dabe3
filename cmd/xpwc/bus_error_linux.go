//go:build cgo && (amd64 || arm64)

package main

/*
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction before;
static uintptr_t go_begin, go_end;
static const int32_t* faultlessly;

// What faults in Go while somebody catches that is for Go's runtime. What else faults, as in XNNPACK while it packs, is
// said in words, in place of a dump of the runtime's.
static void on_bus_error(int signal, siginfo_t* info, void* context) {
  const ucontext_t* at = context;
#if defined(__x86_64__)
  const uintptr_t faulted = (uintptr_t) at->uc_mcontext.gregs[REG_RIP];
#else
  const uintptr_t faulted = (uintptr_t) at->uc_mcontext.pc;
#endif
  if (faulted >= go_begin && faulted < go_end && __atomic_load_n(faultlessly, __ATOMIC_SEQ_CST) > 0) {
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

static void say_bus_errors(uintptr_t begin, uintptr_t end, const int32_t* catching) {
  struct sigaction mine;
  memset(&mine, 0, sizeof(mine));
  mine.sa_sigaction = on_bus_error;
  if (sigaction(SIGBUS, NULL, &before) != 0) {
    return;
  }
  go_begin = begin;
  go_end = end;
  faultlessly = catching;
  mine.sa_flags = before.sa_flags;
  mine.sa_mask = before.sa_mask;
  sigaction(SIGBUS, &mine, NULL);
}
*/
import "C"

import (
	"reflect"
	"runtime"
	"sort"
	"unsafe"

	"xpwc/internal/mapped"
)

// sayBusErrors has the process end in words when it reads a mapped file where there is nothing any more.
func sayBusErrors() {
	begin, end := goText()
	C.say_bus_errors(C.uintptr_t(begin), C.uintptr_t(end), (*C.int32_t)(unsafe.Pointer(&mapped.Faultlessly)))
}

// goText returns where the program has what was compiled from Go, which the linker puts in one piece.
func goText() (begin, end uintptr) {
	here := reflect.ValueOf(goText).Pointer()
	size := func(at func(n int) uintptr) uintptr {
		return uintptr(sort.Search(1<<30, func(n int) bool { return runtime.FuncForPC(at(n)) == nil }))
	}
	begin = here - size(func(n int) uintptr { return here - uintptr(n) }) + 1
	return begin, here + size(func(n int) uintptr { return here + uintptr(n) })
}
