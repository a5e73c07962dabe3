package main

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"

	"xpwc/internal/half"
)

// decode computes the elements of consecutive rows.
func (t tensor) decode(dst []float32, rows []byte) {
	switch t.kind {
	case kindF32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(rows[4*i:]))
		}
	case kindQ8_0: // a scale, 32 int8
		for ; len(dst) >= 32; dst, rows = dst[32:], rows[34:] {
			scale := scaleOf(rows)
			for i, q := range rows[2:34] {
				dst[i] = scale * float32(int8(q))
			}
		}
	case kindQ4_1: // a scale, a minimum, the low halves of 16 bytes and then the high ones
		for ; len(dst) >= 32; dst, rows = dst[32:], rows[20:] {
			scale, second := scaleOf(rows), scaleOf(rows[2:])
			for i, q := range rows[4:20] {
				dst[i] = scale*float32(q&15) + second
				dst[i+16] = scale*float32(q>>4) + second
			}
		}
	}
}

// scaleOf returns the number of half precision that b begins with.
func scaleOf(b []byte) float32 { return float32(half.Float64(binary.LittleEndian.Uint16(b))) }

// quantize rounds a row to 8 bits and returns their scale.
func quantize(dst []byte, row []float32) float32 {
	largest := float32(0)
	for _, v := range row {
		largest = max(largest, v, -v)
	}
	scale := largest / 127
	if !(scale >= 0x1p-120) { // a scale is a normal number, and so is its inverse
		scale = 0x1p-120
	}
	// Adding 1.5*2^23 rounds to an integer, which is then in the lowest bits.
	for i, inverse := 0, 1/scale; i < len(row); i++ {
		dst[i] = byte(math.Float32bits(row[i]*inverse + 0x1.8p23))
	}
	return scale
}

// inParallel divides rows among the processors.
func inParallel(rows int, do func(begin, end int)) {
	n := min(runtime.GOMAXPROCS(0), rows)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i*rows/n, (i+1)*rows/n) })
	}
	wg.Wait()
}
