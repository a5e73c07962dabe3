package xnnpack

import (
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"xpwc/internal/ask"
	"xpwc/internal/cpu"
)

// XNNPACK chooses its kernels once in a process; this is what the binding remembers of it.
var process struct {
	sync.Mutex
	initialized bool
	knowsCPU    bool // cpuinfo's features have the layout of its header
}

func init() { ask.Initialize = Initialize }

// Initialize readies XNNPACK for use in this process and picks the kernels for its CPU. It may be called any number
// of times, from any goroutine; what this package creates calls it too. The error matches UnsupportedHardware where
// XNNPACK cannot run.
func Initialize() error {
	process.Lock()
	defer process.Unlock()
	if process.initialized {
		return nil
	}
	if err := check(cInitialize(), "initialize", ""); err != nil {
		return err
	}
	process.initialized = true
	return nil
}

// InitializeSoon initializes XNNPACK in the background, for a caller that is about to read a model: XNNPACK takes half
// a millisecond to look at the CPU. Initialize waits for it, and returns its error.
func InitializeSoon() {
	go func() { _ = Initialize() }()
}

// BuildIdentifier returns the identifier that XNNPACK was built with, in hexadecimal digits: the SHA-256 of the sources
// of the micro-kernels that this architecture has in use (XNNPACK's scripts/generate-build-identifier.py). Two builds
// with different micro-kernels have different ones. What else XNNPACK consists of, and the compiler's options, are not
// in it. A library that has none is identified by the linker's identifier, of other length, which differs between any
// two builds. It is empty if there is neither. It does not initialize XNNPACK.
func BuildIdentifier() string { return hex.EncodeToString(cBuildIdentifier()) }

// The levels LimitCPU knows besides "native", lowest first, in the order of enum xpwc_cpu_level.
var levelNames = cpu.Levels()

// CPULevels returns the names LimitCPU takes on this architecture, lowest first; the last is "native".
func CPULevels() []string {
	if runtime.GOARCH != "amd64" {
		return []string{"native"}
	}
	return append(slices.Clone(levelNames), "native")
}

// LimitCPU makes XNNPACK choose its kernels as on a lesser CPU. A level is a ceiling: features above it are hidden.
// If this CPU lacks what the level adds to those below it, nothing is hidden and the error matches
// UnsupportedHardware. LimitCPU acts on the whole process and must come before anything else of this package: once
// XNNPACK is initialized the error matches InvalidState. The levels, and a CPU each stands for:
//
//	sse2            the baseline of amd64
//	ssse3           Core 2
//	sse4.1          Penryn, Nehalem
//	avx             Sandy Bridge
//	fma3            AVX, FMA and F16C: Piledriver
//	avx2            Haswell, Zen 2
//	avxvnni         Alder Lake
//	avx512          AVX-512 F, CD, BW, DQ, VL: Skylake-X
//	avx512vnni      Cascade Lake
//	avx512vnnigfni  also VBMI and GFNI: Ice Lake, Zen 4
//	avx512fp16      also BF16 and FP16: Sapphire Rapids in a virtual machine that hides AMX
//	avx512amx       also AMX: Sapphire Rapids
//	native          everything this CPU has
//
// It works through the features that the cpuinfo library found (its exported struct cpuinfo_isa), which XNNPACK reads
// when it is initialized; what an earlier call hid stays hidden. If those features are not this CPU's, as with the
// header of another cpuinfo, the error matches UnsupportedHardware. On other architectures than amd64 only "native" is
// known; any other level is UnsupportedHardware.
func LimitCPU(level string) error {
	const op = "limit CPU"
	process.Lock()
	defer process.Unlock()
	i := slices.Index(levelNames, level)
	switch {
	case process.initialized:
		return reject(InvalidState, op, level,
			"XNNPACK is initialized already and has chosen its kernels; call LimitCPU first")
	case level == "native":
		return nil
	case i < 0:
		return reject(InvalidParameter, op, fmt.Sprintf("%q", level), "no such level; known are %s",
			strings.Join(CPULevels(), ", "))
	case runtime.GOARCH != "amd64":
		return reject(UnsupportedHardware, op, level, "levels of x86 do not apply to %s; only native does",
			runtime.GOARCH)
	case cInitializedWhenLoaded():
		return reject(InvalidState, op, level,
			"XNNPACK chose its kernels when it was loaded, and this program could not put that off")
	case !process.knowsCPU && !cKnowsCPU():
		return reject(UnsupportedHardware, op, level,
			"the features that cpuinfo found are not this CPU's; is its header that of another version?")
	}
	process.knowsCPU = true // and from here on some may be hidden
	if !cHasCPULevel(i) {
		return reject(UnsupportedHardware, op, level,
			"this CPU does not have what that level adds to those below it; choose a lower one")
	}
	cLimitCPU(i)
	cpu.Limit(level)
	return nil
}

// WidenF16 converts IEEE half precision (src, 2 bytes an element) to single precision (dst, 4 bytes an element) with
// XNNPACK's own kernel, on the calling goroutine's thread. Both hold little-endian elements, aligned to their size,
// and must not overlap; bytes past their ends are neither read nor written. Every CPU gives the same bits: each number
// exactly, and a NaN with its sign and its bits, made quiet. The error matches InvalidParameter if dst is not twice as
// long as src.
func WidenF16(dst, src []byte) error {
	const op = "widen f16"
	if len(src)%2 != 0 || len(src) > maxInt/2 || len(dst) != 2*len(src) {
		return reject(InvalidParameter, op, "", "%d bytes of f16 do not widen into %d bytes", len(src), len(dst))
	}
	if err := Initialize(); err != nil {
		return err
	}
	return check(cWidenF16(len(src)/2, src, dst), op, "")
}

const maxInt = int(^uint(0) >> 1)
