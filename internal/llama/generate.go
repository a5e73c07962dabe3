package llama

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"xpwc/internal/generated"
)

// Generate makes sure that the stack's file of weights is at path, as [generated.Write] has it. The weights depend on
// the stack alone.
func (s Stack) Generate(ctx context.Context, path string, progress func(done, total int64)) error {
	var matrices, rest []generated.Part
	for i := range s.Layers * len(kinds) {
		m := kinds[i%len(kinds)]
		convert := symmetric
		if s.Float32 {
			convert = generated.Floats(generated.Bound(m.in))
		} else {
			rest = append(rest, generated.Part{Bytes: scales(i)})
		}
		matrices = append(matrices, generated.Part{Random: s.bytes(m), Seed: seed(i, false), Convert: convert})
	}
	rest = append(rest, generated.Part{Bytes: make([]byte, end)})
	return generated.Write(ctx, path, append(matrices, rest...), progress)
}

// seed is that of the i-th matrix, or of its scales.
func seed(i int, scales bool) (seed [32]byte) {
	copy(seed[8:], "xpwc llama stack")
	binary.LittleEndian.PutUint32(seed[:], uint32(i))
	if scales {
		seed[4] = 1
	}
	return seed
}

// symmetric replaces -128, which symmetric quantisation does not use: kernels that add two products in 16 bits rely on
// it.
func symmetric(b []byte) {
	const lowest = 0x80
	for i, x := range b {
		if x == lowest {
			b[i] = lowest + 1
		}
	}
}

// scales returns the scales of the i-th matrix, little-endian: what keeps the variance, times 0.75 to 1.25.
func scales(i int) []byte {
	m := kinds[i%len(kinds)]
	random := rand.New(rand.NewChaCha8(seed(i, true)))
	mean := generated.Bound(m.in) / 127
	b := make([]byte, 0, 4*m.out)
	for range m.out {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean)*(0.75+0.5*random.Float32())))
	}
	return b
}
