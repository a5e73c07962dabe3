package main

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra
// #include "host.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unsafe"

	"xpwc"
	"xpwc/internal/mapped"
)

var (
	errInvalidHandle   = errors.New("the handle was closed, or never was one")
	errInvalidArgument = errors.New("invalid argument")
)

func invalid(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", errInvalidArgument, fmt.Sprintf(format, arguments...))
}

// A callbackError is a status that a callback of the host returned.
type callbackError struct {
	callback string
	status   C.xpwc_status
}

func (e callbackError) Error() string {
	name := C.GoString(C.xpwc_status_string(e.status))
	return fmt.Sprintf("the host's %s returned status %d, %s", e.callback, e.status, name)
}

// result returns the host's status if xpwc.h has it. Other numbers may be statuses of a later version.
func (e callbackError) result() C.xpwc_status {
	if e.status > C.XPWC_STATUS_OK && e.status <= C.XPWC_STATUS_OTHER_XNNPACK {
		return e.status
	}
	return C.XPWC_STATUS_CALLBACK_FAILED
}

// statuses are tried in this order.
var statuses = []struct {
	err    error
	status C.xpwc_status
}{
	{errInvalidArgument, C.XPWC_STATUS_INVALID_ARGUMENT},
	{mapped.ErrNotRegular, C.XPWC_STATUS_INVALID_ARGUMENT},
	{xpwc.ErrShape, C.XPWC_STATUS_INVALID_ARGUMENT},
	{errInvalidHandle, C.XPWC_STATUS_INVALID_HANDLE},
	{xpwc.ErrClosed, C.XPWC_STATUS_INVALID_HANDLE},
	{xpwc.ErrUnknownTensor, C.XPWC_STATUS_UNKNOWN_TENSOR},
	{xpwc.ErrNoDataMap, C.XPWC_STATUS_NO_DATA_MAP},
	{xpwc.ErrNotEager, C.XPWC_STATUS_NOT_EAGER},
	{xpwc.ErrSourceChanged, C.XPWC_STATUS_SOURCE_CHANGED},
	{xpwc.ErrLost, C.XPWC_STATUS_LOST},
	{xpwc.ErrFinalized, C.XPWC_STATUS_FINALIZED},
	{xpwc.ErrInUse, C.XPWC_STATUS_IN_USE},
	{xpwc.ErrNotCache, C.XPWC_STATUS_NOT_CACHE},
	{xpwc.ErrUnsafeFile, C.XPWC_STATUS_UNSAFE_FILE},
	{xpwc.ErrDamaged, C.XPWC_STATUS_DAMAGED},
	{xpwc.ErrForeign, C.XPWC_STATUS_FOREIGN},
	{xpwc.ErrVersion, C.XPWC_STATUS_VERSION_MISMATCH},
	{xpwc.ErrOtherOptions, C.XPWC_STATUS_OTHER_OPTIONS},
	{xpwc.ErrBusy, C.XPWC_STATUS_BUSY},
	{xpwc.ErrReplaced, C.XPWC_STATUS_REPLACED},
	{xpwc.ErrReadOnly, C.XPWC_STATUS_READ_ONLY},
	{xpwc.ErrOtherXNNPACK, C.XPWC_STATUS_OTHER_XNNPACK},
	{syscall.ENOMEM, C.XPWC_STATUS_OUT_OF_MEMORY},
}

func statusOf(err error) C.xpwc_status {
	if err == nil {
		return C.XPWC_STATUS_OK
	}
	if e := (callbackError{}); errors.As(err, &e) {
		return e.result()
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	if errno, path := syscall.Errno(0), (*fs.PathError)(nil); errors.As(err, &errno) || errors.As(err, &path) {
		return C.XPWC_STATUS_SYSTEM_ERROR
	}
	return C.XPWC_STATUS_INTERNAL
}

// call runs the body of an exported function. It returns the error's status, and sets this thread's message and logs
// it. l may be nil.
func call(l *hostCallbacks, do func() error) C.xpwc_status {
	err := contain(do)
	if err == nil {
		return C.XPWC_STATUS_OK
	}
	message := hostText(err.Error())
	l.log(C.XPWC_LOG_ERROR, message)
	setLastError(message) // after the log's callback, which may have failed calls of its own
	return statusOf(err)
}

// contain turns a panic, a defect of this library which must not unwind into C, into an error.
func contain(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("defect in libxpwc: %v", r)
		}
	}()
	return do()
}

// setLastError drops the middle of a text that is too long: its beginning names the failure, its end the remedy.
func setLastError(message string) {
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(C.xpwc_last_error_buffer())), C.xpwc_last_error_size)
	if room := len(buffer) - 1; len(message) > room {
		const gap = " … "
		half := (room - len(gap)) / 2
		message = strings.ToValidUTF8(message[:half], "") + gap + strings.ToValidUTF8(message[len(message)-half:], "")
	}
	buffer[copy(buffer, message)] = 0
}
