package tflite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"xpwc"
	"xpwc/internal/output"
)

// A skeleton ends with a record of what it leaves out, before the mark: for each buffer its index and the digest of its
// content, then how many buffers these are, how many subgraphs the model has, and a magic. Numbers have 64 bits and are
// little-endian. So xpwc finds the packed weights of the buffers by their content, and reads no check.
const recordMagic = "xpwcOmit"

const (
	recordEntry = 8 + len(xpwc.Digest{})
	recordEnd   = 8 + 8 + len(recordMagic)
)

// An omission is what a skeleton leaves out of a model, and adds to it; the zero value is that of a whole model.
type omission struct {
	buffers   map[uint64]xpwc.Digest // the content of those that are left out, by index
	subgraphs int                    // how many the model has; those after them are checks
}

// checks reports whether an operator runs the checks of a skeleton, which are for LiteRT.
func (o *omission) checks(op *operator) bool {
	return o.subgraphs > 0 && op.code == "CALL_ONCE" && op.options.Int32(callOnceInit, 0) >= int32(o.subgraphs)
}

func (o *omission) append(b []byte, order []uint64) []byte {
	for _, i := range order {
		digest := o.buffers[i]
		b = append(binary.LittleEndian.AppendUint64(b, i), digest[:]...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(order)))
	b = binary.LittleEndian.AppendUint64(b, uint64(o.subgraphs))
	return append(b, recordMagic...)
}

// readOmission reads the record at a model's end. Without one the model is whole. The error matches [ErrSkeleton] if it
// is a skeleton of an earlier version, which has no record.
func readOmission(data []byte) (o omission, err error) {
	data, skeleton := bytes.CutSuffix(data, []byte(output.SkeletonMark))
	if !skeleton {
		return o, nil
	}
	if len(data) < recordEnd || !bytes.HasSuffix(data, []byte(recordMagic)) {
		return o, ErrSkeleton
	}
	data, end := data[:len(data)-recordEnd], data[len(data)-recordEnd:]
	n, subgraphs := binary.LittleEndian.Uint64(end), binary.LittleEndian.Uint64(end[8:])
	if n > uint64(len(data)/recordEntry) || subgraphs > uint64(len(data)) {
		return o, fmt.Errorf("%w: a skeleton without %d buffers of %d subgraphs, in %d bytes", ErrMalformed, n,
			subgraphs, len(data))
	}
	o = omission{map[uint64]xpwc.Digest{}, int(subgraphs)}
	for entry := data[uint64(len(data))-n*uint64(recordEntry):]; len(entry) > 0; entry = entry[recordEntry:] {
		o.buffers[binary.LittleEndian.Uint64(entry)] = xpwc.Digest(entry[8:recordEntry])
	}
	return o, nil
}
