// Package cpu names what a processor has that decides which of XNNPACK's kernels compute on it. The names are for
// people and for LimitCPU of package xnnpack; what XNNPACK packs is asked of XNNPACK.
package cpu

import (
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
)

// A feature is what a processor has or has not. Those of x86 that processors of one time have are a level.
type feature struct {
	name   string
	detect func() bool // what it adds to those below it
}

func supports(features ...cpuid.FeatureID) func() bool {
	return func() bool { return cpuid.CPU.Supports(features...) }
}

// levels, lowest first.
var levels = []feature{
	{"sse2", supports(cpuid.SSE2)},
	{"ssse3", supports(cpuid.SSSE3)},
	{"sse4.1", supports(cpuid.SSE4)},
	{"avx", supports(cpuid.AVX)},
	{"fma3", supports(cpuid.FMA3, cpuid.F16C)},
	{"avx2", supports(cpuid.AVX2)},
	{"avxvnni", supports(cpuid.AVXVNNI)},
	{"avx512", supports(cpuid.AVX512F, cpuid.AVX512CD, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL)},
	{"avx512vnni", supports(cpuid.AVX512VNNI)},
	{"avx512vnnigfni", supports(cpuid.AVX512VBMI, cpuid.GFNI)},
	{"avx512fp16", supports(cpuid.AVX512FP16, cpuid.AVX512BF16)},
	{"avx512amx", supports(cpuid.AMXTILE, cpuid.AMXINT8)},
}

// bf16WithoutFP16 reports BF16 on a processor below the level that includes it, such as Zen 4.
func bf16WithoutFP16() bool {
	return cpuid.CPU.Supports(cpuid.AVX512BF16) && !cpuid.CPU.Supports(cpuid.AVX512FP16)
}

// beyond are features that no level has.
var beyond = map[string][]feature{
	"amd64": {{"avxvnniint8", supports(cpuid.AVXVNNIINT8)}, {"avx512bf16", bf16WithoutFP16},
		{"avx10", supports(cpuid.AVX10)}},
	"arm64": {{"neon", supports(cpuid.ASIMD)}, {"fp16", supports(cpuid.FPHP, cpuid.ASIMDHP)},
		{"dot", supports(cpuid.ASIMDDP)}, {"i8mm", hasI8MM}},
}

// Levels returns the names of the levels of x86, lowest first.
func Levels() []string {
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.name
	}
	return names
}

var limit atomic.Pointer[string]

// Limit notes that features above a level are hidden from XNNPACK in this process.
func Limit(level string) { limit.Store(&level) }

// Features names what XNNPACK finds on this processor: on x86 the level, then what is beyond all levels, and on arm64
// the largest core, if its name is known, and each feature. It is empty for an architecture of which nothing is known
// here.
func Features() string {
	var names []string
	ceiling := limit.Load()
	switch runtime.GOARCH {
	case "amd64":
		names = append(names, highest(ceiling))
	case "arm64":
		if name := arm64Core(); name != "" {
			names = append(names, name)
		}
	}
	if ceiling == nil {
		for _, f := range beyond[runtime.GOARCH] {
			if f.detect() {
				names = append(names, f.name)
			}
		}
	}
	return strings.Join(names, " ")
}

// Name names this processor: the architecture, and its Features. What was packed on one is described by its name.
func Name() string { return strings.TrimSpace(runtime.GOARCH + " " + Features()) }

// Limited returns the level above which features are hidden from XNNPACK; "" if none are.
func Limited() string {
	if level := limit.Load(); level != nil {
		return *level
	}
	return ""
}

// highest returns the highest level at most ceiling of which this processor has all, but that those with AVX-512 need
// not have AVX-VNNI, which came later.
func highest(ceiling *string) string {
	name := ""
	for _, l := range levels {
		if l.detect() {
			name = l.name
		} else if l.name != "avxvnni" {
			break
		}
		if ceiling != nil && l.name == *ceiling {
			break
		}
	}
	return name
}
