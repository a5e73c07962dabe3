// Package half converts IEEE 754 half precision and bfloat16, one number at a time. XNNPACK converts what it computes
// with.
package half

import "math"

// Float64 returns the number that the bits stand for.
func Float64(bits uint16) float64 {
	sign, exponent, fraction := uint32(bits>>15)<<31, uint32(bits>>10&31), uint32(bits&0x3ff)
	single := sign | (exponent+112)<<23 | fraction<<13
	switch exponent {
	case 0:
		single = sign | math.Float32bits(float32(fraction)*0x1p-24)
	case 31:
		single = sign | 0xff<<23 | fraction<<13
	}
	return float64(math.Float32frombits(single))
}

// Bits returns the bits of the nearest number in half precision, which is infinite from 65520 on.
func Bits(v float64) uint16 {
	double := math.Float64bits(v)
	sign := uint16(double>>48) & 0x8000
	switch v = math.Abs(v); {
	case v != v:
		return 0x7e00
	case v >= 65520:
		return sign | 0x7c00
	case v < 0x1p-14:
		return sign | uint16(math.RoundToEven(v*0x1p24))
	}
	// What is rounded up may carry into the exponent, whose bias differs.
	double &^= 1 << 63
	return sign | uint16((double+1<<41-1+double>>42&1)>>42-(1023-15)<<10)
}

// Brain returns the number of a bfloat16, the upper half of single precision.
func Brain(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }

// BrainBits returns the bits of the nearest bfloat16, of two that are equally near the even one.
func BrainBits(v float64) uint16 {
	single := math.Float32bits(float32(v))
	if math.IsNaN(v) {
		return uint16(single>>16) | 1<<6
	}
	return uint16((single + 0x7fff + single>>16&1) >> 16)
}
