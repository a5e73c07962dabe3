// Package half converts IEEE 754 half precision, one number at a time. XNNPACK converts what it computes with.
package half

import "math"

// Float64 returns the number that the bits stand for.
func Float64(bits uint16) float64 {
	sign := 1.0
	if bits&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch exponent {
	case 0:
		return math.Copysign(math.Ldexp(fraction, -24), sign)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// Bits returns the bits of the nearest number in half precision, which is infinite from 65520 on.
func Bits(v float64) uint16 {
	var sign uint16
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	switch {
	case v != v:
		return 0x7e00
	case v >= 65520:
		return sign | 0x7c00
	case v < 0x1p-14:
		return sign | uint16(math.RoundToEven(v*0x1p24))
	}
	fraction, exponent := math.Frexp(v) // v = fraction * 2^exponent, fraction in [0.5, 1)
	// The implicit bit carries into the exponent.
	return sign | uint16((exponent+13)<<10) + uint16(math.RoundToEven(fraction*2048))
}
