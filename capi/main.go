// Command capi is the C library libxpwc: include/xpwc.h over package xpwc, built as a C archive and as a shared library
// (make lib).
//
// The functions of xpwc.h are in api.c, which has start.c start Go's runtime with the first of them and then calls
// those that are exported here. Addresses that Go must not hold become numbers there: Go's runtime ends the process
// when it finds a small number in a pointer, and hosts use such numbers as contexts.
//
// Without the following, Go's runtime opens files of the control group, to follow its limits.
//
//go:debug containermaxprocs=0
package main

// #include "host.h"
import "C"

// init gives the host back what Go has taken and can do without: its handler of SIGURG, with which the runtime preempts
// goroutines and which it does not pass on; and its limit of open files, which package syscall raises.
func init() { _ = C.xpwc_restore() }

func main() {} // never called: a library has none
