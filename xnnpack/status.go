package xnnpack

import "fmt"

// Status is the outcome of an XNNPACK call (enum xnn_status). Every value except Success is an error: the errors of
// this package wrap one.
type Status int

// The statuses of xnnpack.h.
const (
	Success              Status = 0
	Uninitialized        Status = 1
	InvalidParameter     Status = 2
	InvalidState         Status = 3
	UnsupportedParameter Status = 4
	UnsupportedHardware  Status = 5
	OutOfMemory          Status = 6
	ReallocationRequired Status = 7
	Deprecated           Status = 8
)

// NoCgo is the status of every call in a program that was built without cgo (CGO_ENABLED=0). XNNPACK has none for it.
const NoCgo Status = -1

var statusText = [...]string{
	Success:              "success",
	Uninitialized:        "XNNPACK is not initialized",
	InvalidParameter:     "invalid parameter",
	InvalidState:         "invalid state",
	UnsupportedParameter: "unsupported parameter",
	UnsupportedHardware:  "unsupported hardware",
	OutOfMemory:          "out of memory",
	ReallocationRequired: "reallocation required",
	Deprecated:           "deprecated",
}

// Error implements error.
func (s Status) Error() string {
	if s == NoCgo {
		return "this program has no XNNPACK; build it with CGO_ENABLED=1 and a C compiler"
	}
	if s >= 0 && int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status %d", int(s))
}

// Error has the failed operation, its object and the cause. It unwraps to its Status.
type Error struct {
	Op      string // what was being done, e.g. "define fully connected"
	Subject string // what it was done to, e.g. `input 0 "x", filter 3 "w", output 1 "y"`
	Detail  string // what is wrong with it, where the binding knows; XNNPACK itself gives only a status
	Status  Status

	defect bool // of XNNPACK, known
}

// Error implements error.
func (e *Error) Error() string {
	msg := "xnnpack: " + e.Op
	if e.Subject != "" {
		msg += ": " + e.Subject
	}
	if e.Detail != "" {
		return msg + ": " + e.Detail
	}
	return msg + ": " + e.Status.Error()
}

// Unwrap returns the Status.
func (e *Error) Unwrap() error { return e.Status }

// Is reports whether a known defect of XNNPACK is the reason, if it is asked for that.
func (e *Error) Is(target error) bool { return target == ErrKnownDefect && e.defect }

// check turns a status into an error.
func check(s Status, op, subject string) error {
	if s == Success {
		return nil
	}
	return &Error{Op: op, Subject: subject, Status: s}
}

func reject(s Status, op, subject, format string, args ...any) error {
	return &Error{Op: op, Subject: subject, Detail: fmt.Sprintf(format, args...), Status: s}
}
