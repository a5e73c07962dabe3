//go:build cgo

// Package reader wraps the reader in C of this directory for tests in Go, which have all operators and damaged files.
package reader

/*
#cgo CFLAGS: -DXPWC_READER_LITTLE=0 -DXPWC_READER_TEST -std=gnu99 -O2 -Wall -Wextra
#cgo CFLAGS: -I${SRCDIR}/../.. -I${SRCDIR}/../include
#cgo !xpwc_host LDFLAGS: -lXNNPACK -lpthreadpool -lcpuinfo -lm
#include <stdlib.h>
#include "internal/ask/key.h"
#include "testdata/entries.h"

static bool alias(xpwc_reader* reader, void* copy, void* original) {
  xnn_weights_cache_t provider = xpwc_reader_provider(reader);
  enum xnn_status (*alias_data)(void* context, void* alias, void* original) = NULL;
  if (xpwc_provider_has_alias_data) {
    memcpy(&alias_data, (char*)provider + xpwc_provider_end, sizeof(alias_data));
  }
  return alias_data != NULL && alias_data(provider->context, copy, original) == xnn_status_success;
}

static bool finds(xpwc_reader* reader, uint32_t seed, uint32_t fingerprint_id, const void* kernel) {
  xnn_weights_cache_t provider = xpwc_reader_provider(reader);
  struct xnn_weights_cache_look_up_key key;
  memset(&key, 0, sizeof(key));
  key.seed = seed;
  key.kernel = kernel;
  if (xpwc_key_has_fingerprint_id) {
    memcpy((char*)&key + xpwc_key_end, &fingerprint_id, sizeof(fingerprint_id));
  }
  return provider->look_up(provider->context, &key) != SIZE_MAX;
}
*/
import "C"

import (
	"os"
	"runtime"
	"unsafe"

	_ "xpwc/internal/ask" // its C files are included: rebuild when they change
	"xpwc/xnnpack/packing"
)

// A Status is an xpwc_status as an error.
type Status int

func (s Status) Error() string { return C.GoString(C.xpwc_reader_status_string(C.xpwc_status(s))) }

func statusOf(s C.xpwc_status) error {
	if s == C.XPWC_STATUS_OK {
		return nil
	}
	return Status(s)
}

// Statuses that tests check.
const (
	NotCache        = Status(C.XPWC_STATUS_NOT_CACHE)
	Damaged         = Status(C.XPWC_STATUS_DAMAGED)
	InvalidArgument = Status(C.XPWC_STATUS_INVALID_ARGUMENT)
	UnsafeFile      = Status(C.XPWC_STATUS_UNSAFE_FILE)
)

// A Reader is an xpwc_reader, and an xnnpack.WeightsCache.
type Reader struct{ c *C.xpwc_reader }

// Open opens a file with a model's digest, or "".
func Open(path, model string) (*Reader, error) {
	name, digest := C.CString(path), text(model)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(digest))
	r := &Reader{}
	return r, statusOf(C.xpwc_reader_open(name, digest, &r.c))
}

// OpenFD opens a file, or a part of one, by a descriptor.
func OpenFD(fd uintptr, offset, size uint64, model string) (*Reader, error) {
	digest := text(model)
	defer C.free(unsafe.Pointer(digest))
	r := &Reader{}
	return r, statusOf(C.xpwc_reader_open_fd(C.int(fd), C.uint64_t(offset), C.uint64_t(size), digest, &r.c))
}

func text(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}

// Close closes the reader.
func (r *Reader) Close() { C.xpwc_reader_close(r.c) }

// Provider implements xnnpack.WeightsCache.
func (r *Reader) Provider() unsafe.Pointer { return unsafe.Pointer(C.xpwc_reader_provider(r.c)) }

// Alias registers a copy of a tensor, as XNNPACK does. It returns false if this XNNPACK does not report its copies.
func (r *Reader) Alias(copied, original []byte) bool {
	return bool(C.alias(r.c, unsafe.Pointer(&copied[0]), unsafe.Pointer(&original[0])))
}

// Finds reports whether a look-up of a kernel, with an entry's seed, hits.
func (r *Reader) Finds(e Entry, kernel []byte) bool {
	return bool(C.finds(r.c, C.uint32_t(e.Seed), C.uint32_t(e.FingerprintID), unsafe.Pointer(&kernel[0])))
}

// Finalize finalizes the reader.
func (r *Reader) Finalize() error { C.xpwc_reader_finalize(r.c); return nil }

// Verify verifies the checksums of entries that hit.
func (r *Reader) Verify() error { return statusOf(C.xpwc_reader_verify(r.c)) }

// Stats are xpwc_reader_stats.
type Stats struct {
	Hits, Packed, Shared, Misses, Entries int
	Damaged, Asked                        bool
	MissesBy                              map[Miss]int // without zeros
}

// A Miss is an xpwc_reader_miss.
type Miss int

// Reasons of misses.
const (
	MissUnnamed   = Miss(C.XPWC_READER_MISS_UNNAMED)
	MissPacking   = Miss(C.XPWC_READER_MISS_PACKING)
	MissNoProgram = Miss(C.XPWC_READER_MISS_NO_PROGRAM)
	MissModel     = Miss(C.XPWC_READER_MISS_MODEL)
	MissLayout    = Miss(C.XPWC_READER_MISS_LAYOUT)
	MissContent   = Miss(C.XPWC_READER_MISS_CONTENT)
	MissAbsent    = Miss(C.XPWC_READER_MISS_ABSENT)
	MissOff       = Miss(C.XPWC_READER_MISS_OFF)
)

// Reason is xpwc_reader_reason.
func (r *Reader) Reason() string { return C.GoString(C.xpwc_reader_reason(r.c)) }

// Stats returns the reader's counts.
func (r *Reader) Stats() Stats {
	var s C.xpwc_reader_stats
	C.xpwc_reader_get_stats(r.c, &s)
	misses := map[Miss]int{}
	for reason, n := range s.misses_by {
		if n > 0 {
			misses[Miss(reason)] = int(n)
		}
	}
	return Stats{int(s.hits.entries), int(s.packed.entries), int(s.shared.entries), int(s.misses), int(s.entries),
		s.damaged != 0, s.asked != 0, misses}
}

// Digest is xpwc_reader_digest.
func Digest(b []byte) string {
	var text [33]C.char
	C.xpwc_reader_digest(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)), &text[0])
	return C.GoString(&text[0])
}

// DigestFile is xpwc_reader_digest_fd.
func DigestFile(f *os.File, offset, size uint64) (string, error) {
	var text [33]C.char
	err := statusOf(C.xpwc_reader_digest_fd(C.int(f.Fd()), C.uint64_t(offset), C.uint64_t(size), &text[0]))
	return C.GoString(&text[0]), err
}

// An Entry is an xpwc_reader_entry.
type Entry struct {
	Kernel, Bias         string
	HasBias              bool
	Offset               uint64
	Seed, FingerprintID  uint32
	Layout, Packing, Sum [16]byte
	Payload              []byte // mapped
}

// Entry returns an entry of the file.
func (r *Reader) Entry(i int) (Entry, error) {
	var e C.xpwc_reader_entry
	if err := statusOf(C.xpwc_reader_get_entry(r.c, C.uint64_t(i), &e)); err != nil {
		return Entry{}, err
	}
	return Entry{
		Kernel:  C.GoStringN(e.kernel, C.int(e.kernel_size)),
		Bias:    C.GoStringN(e.bias, C.int(e.bias_size)),
		HasBias: e.bias != nil, Offset: uint64(e.offset), Seed: uint32(e.seed), FingerprintID: uint32(e.fingerprint_id),
		Layout: bytesOf(&e.layout), Packing: bytesOf(&e.packing), Sum: bytesOf(&e.sum),
		Payload: unsafe.Slice((*byte)(e.payload), int(e.size)),
	}, nil
}

func bytesOf(d *[16]C.uint8_t) [16]byte { return *(*[16]byte)(unsafe.Pointer(d)) }

// Name names a tensor, which lies outside the Go heap, without a packing.
func (r *Reader) Name(name string, data []byte) error { return r.name(name, data, nil) }

// NameOpaque names a tensor with an opaque packing.
func (r *Reader) NameOpaque(name string, data, description []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	p := C.xpwc_packing{
		opaque: unsafe.Pointer(pinned(&pin, description)), opaque_size: C.size_t(len(description)),
	}
	p.struct_size = C.sizeof_xpwc_packing
	return r.name(name, data, &p)
}

// SetProgram sets the program of the tensors that are named next.
func (r *Reader) SetProgram(program string) error {
	data := C.CString(program)
	defer C.free(unsafe.Pointer(data))
	return statusOf(C.xpwc_reader_set_program(r.c, unsafe.Pointer(data), C.size_t(len(program))))
}

// NameAsSealed names a tensor whose packing comes from the file.
func (r *Reader) NameAsSealed(name string, data []byte) error {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	address, size := unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data))
	return statusOf(C.xpwc_reader_name_as_sealed(r.c, cName, address, size))
}

// NamePacked names a tensor with a packing.
func (r *Reader) NamePacked(name string, data []byte, id packing.Identity) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	dims := make([]C.size_t, len(id.Shape))
	for i, n := range id.Shape {
		dims[i] = C.size_t(n)
	}
	p := C.xpwc_packing{
		operator_type: C.uint32_t(id.Operator), flags: C.uint32_t(id.Flags), groups: C.uint32_t(id.Groups),
		stride_height: C.uint32_t(id.Stride.Height), stride_width: C.uint32_t(id.Stride.Width),
		dilation_height: C.uint32_t(id.Dilation.Height), dilation_width: C.uint32_t(id.Dilation.Width),
		dim_count: C.uint32_t(len(dims)), dims: pinned(&pin, dims),
		input: operand(&pin, &id.Input), kernel: operand(&pin, &id.Kernel), bias: operand(&pin, &id.Bias),
		output:           operand(&pin, &id.Output),
		hidden_bias:      unsafe.Pointer(pinned(&pin, id.HiddenBias)),
		hidden_bias_size: C.size_t(len(id.HiddenBias)),
	}
	p.struct_size = C.sizeof_xpwc_packing
	return r.name(name, data, &p)
}

func operand(pin *runtime.Pinner, o *packing.Operand) C.xpwc_operand {
	return C.xpwc_operand{
		datatype: C.uint32_t(o.Type), zero_point: C.int32_t(o.ZeroPoint), scale: C.float(o.Scale),
		channel_dim: C.uint32_t(o.ChannelDim),
		scales:      (*C.float)(unsafe.Pointer(pinned(pin, o.Scales))), scale_count: C.size_t(len(o.Scales)),
		block_scales:      (*C.uint16_t)(unsafe.Pointer(pinned(pin, o.BlockScales))),
		block_scale_count: C.size_t(len(o.BlockScales)),
		block_size:        C.uint32_t(o.BlockSize), non_batch_dims: C.uint32_t(o.NonBatchDims),
	}
}

func pinned[T any](pin *runtime.Pinner, b []T) *T {
	if len(b) == 0 {
		return nil
	}
	pin.Pin(&b[0])
	return &b[0]
}

func (r *Reader) name(name string, data []byte, p *C.xpwc_packing) error {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return statusOf(C.xpwc_reader_name(r.c, cName, unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), p))
}
