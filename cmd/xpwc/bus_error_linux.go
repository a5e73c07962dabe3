//go:build cgo

package main

/*
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static struct sigaction before;
static const int32_t* faultlessly;

// While a Go function catches faults, they go to Go's runtime. At all other times, as while XNNPACK packs, a fault is
// reported as a message instead of the runtime's dump.
static void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (__atomic_load_n(faultlessly, __ATOMIC_SEQ_CST) > 0) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  static const char message[] =
      "xpwc: a file was cut off or overwritten while it was in use, or its disk failed (SIGBUS); "
      "put a new file beside the old one and rename it (mv), then start again\n";
  if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0) {
    // standard error is closed
  }
  _exit(1);
}

static void report_bus_errors(const int32_t* catching) {
  struct sigaction mine;
  memset(&mine, 0, sizeof(mine));
  mine.sa_sigaction = on_bus_error;
  if (sigaction(SIGBUS, NULL, &before) != 0) {
    return;
  }
  faultlessly = catching;
  mine.sa_flags = before.sa_flags;
  mine.sa_mask = before.sa_mask;
  sigaction(SIGBUS, &mine, NULL);
}
*/
import "C"

import (
	"unsafe"

	"xpwc/internal/mapped"
)

// reportBusErrors makes the process exit with a message when it reads a mapped file beyond the file's end.
func reportBusErrors() {
	C.report_bus_errors((*C.int32_t)(unsafe.Pointer(&mapped.Faultlessly)))
}
