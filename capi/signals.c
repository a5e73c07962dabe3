#include <signal.h>

#include "host.h"

static struct sigaction urgent;

// Runs before Go's runtime starts, which is a constructor without a priority.
__attribute__((constructor(101))) static void save_urgent(void) { sigaction(SIGURG, NULL, &urgent); }

bool xpwc_restore_urgent(void) {
  if ((urgent.sa_flags & SA_SIGINFO) == 0 && urgent.sa_handler == SIG_DFL) {
    return false;
  }
  urgent.sa_flags |= SA_ONSTACK; // it may arrive on a goroutine's stack, which is small
  return sigaction(SIGURG, &urgent, NULL) == 0;
}
