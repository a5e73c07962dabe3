//go:build cgo && linux

package stock

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#cgo LDFLAGS: -lcpuinfo -ldl
#include <stdlib.h>
#include "pack.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"xpwc/internal/mapped"
	"xpwc/xnnpack"
)

// Pack packs the model, for which the process must be a new one that is used for nothing else: the library stays in it,
// what the level hides stays hidden, and what LiteRT logs goes to standard error. The error matches ErrTaken if the
// file would give wrong answers, and is that of xnnpack.LimitCPU if the level cannot be had.
func (j Job) Pack() error {
	file, err := mapped.OpenSection(j.Model, mapped.Section{Offset: j.Offset, Size: j.Size})
	if err != nil {
		return err
	}
	defer file.Close()
	library := C.CString(j.Library)
	defer C.free(unsafe.Pointer(library))
	if wrong := C.xpwc_litert_load(library); wrong != nil {
		return fmt.Errorf("%s: %s", j.Library, C.GoString(wrong))
	}
	if j.CPU != "native" {
		supported := C.xpwc_litert_knows_cpuinfo()
		if err := xnnpack.LimitCPU(j.CPU); err != nil {
			return err
		}
		if !supported || !C.xpwc_litert_limit_cpu() {
			return fmt.Errorf("%s: its cpuinfo is another than that of this program, which cannot hide features "+
				"from it: pack on a CPU of level %s", j.Library, j.CPU)
		}
	}
	into, err := syscall.Dup(int(j.Into.Fd())) // which LiteRT closes
	if err != nil {
		return err
	}
	answers := -1
	if j.Answers != nil {
		answers = int(j.Answers.Fd())
	}
	model := unsafe.Pointer(unsafe.SliceData(file.Data()))
	const alignment = 16
	if j.Offset%alignment != 0 { // as of a member of a zip
		model = C.CBytes(file.Data())
		defer C.free(model)
	}
	var taken C.long
	wrong := C.xpwc_litert_pack(model, C.size_t(len(file.Data())), C.int(into), C.int(answers), &taken)
	if wrong != nil {
		return errors.New(C.GoString(wrong))
	}
	if taken > 0 {
		return ErrTaken
	}
	return nil
}
