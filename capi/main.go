// Command capi is the C library libxpwc: include/xpwc.h over package xpwc, built as a C archive and as a shared library
// (make lib).
//
// Exported functions have the names and, checked by the C compiler, the prototypes of xpwc.h. Those whose arguments may
// have addresses that Go must not hold are in api.c, which turns them into numbers first: Go's runtime ends the process
// when it finds a small number in a pointer, and hosts use such numbers as contexts.
//
// Without the following, Go's runtime opens files of the control group, to follow its limits, as soon as the library is
// loaded.
//
//go:debug containermaxprocs=0
package main

// #include "host.h"
import "C"

// init gives the host its handler of SIGURG back, which Go's runtime has taken to preempt goroutines and does not pass
// on. It can do without.
func init() { _ = C.xpwc_restore_urgent() }

func main() {} // never called: a library has none
