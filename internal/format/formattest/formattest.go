// Package formattest makes files for tests that nothing in the project writes.
package formattest

import (
	"encoding/binary"
	"fmt"

	"xpwc/internal/format"
)

// WithoutSeeds returns ExecuTorch's file with its index in version 1, as early ExecuTorchs wrote it. The payloads are
// the same.
func WithoutSeeds(file []byte) []byte {
	entries, version, err := format.DecodeTrailer(uint64(len(file)), func(b []byte, at uint64) error {
		copy(b, file[at:])
		return nil
	})
	if err != nil {
		panic(fmt.Sprint("not an ExecuTorch file: ", err))
	}
	start := uint64(len(file)) - format.TrailerSize(entries, version)
	le := binary.LittleEndian
	out := append([]byte(nil), file[:start]...)
	for _, e := range entries {
		out = le.AppendUint32(out, uint32(len(e.Name)))
		out = append(out, e.Name...)
		out = le.AppendUint64(out, e.Offset)
		out = le.AppendUint64(out, e.Size)
	}
	out = le.AppendUint64(out, start)
	out = le.AppendUint32(out, uint32(len(entries)))
	out = le.AppendUint32(out, 0x58505743)
	return le.AppendUint32(out, format.TrailerV1)
}
