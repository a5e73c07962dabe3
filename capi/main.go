// Command capi is the C library libxpwc: include/xpwc.h over package xpwc, built as a C archive and as a shared library
// (make lib).
//
// The functions of xpwc.h are in api.c. They start Go's runtime (start.c) and call the functions exported here. They
// pass callbacks and contexts as numbers: Go's runtime ends the process when it finds a small number in a pointer, and
// hosts use such numbers as contexts.
//
// Without this directive, Go's runtime opens files of the control group, to follow its limits.
//
//go:debug containermaxprocs=0
package main

// #include "host.h"
import "C"

// init restores two settings of the host that Go's runtime changed: the handler of SIGURG, by which the runtime
// preempts goroutines and which it does not forward, and the limit of open files, which package syscall raises.
func init() { _ = C.xpwc_restore() }

func main() {} // required by cgo, never called
