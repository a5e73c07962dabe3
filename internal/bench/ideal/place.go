package ideal

// A Place is where a payload lies in a file that Save wrote.
type Place struct{ Offset, Size int64 }

// alignment is what the offset of a payload is a multiple of.
const alignment = 128
