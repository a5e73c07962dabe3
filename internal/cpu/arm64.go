package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// ArmFeatures are those features of an arm64 CPU by which XNNPACK chooses kernels that pack differently. Each includes
// the ones before it.
type ArmFeatures int

// The sets of features, each with a CPU that has it.
const (
	ARMv8   ArmFeatures = iota // Cortex-A53, A72
	FP16                       // half precision: Kryo 385
	DotProd                    // dot products of int8: Cortex-A76, X1
	I8MM                       // matrix products of int8, and BF16: Oryon
	SVE                        // scalable vectors, which change no packing: Cortex-A710, X4
)

// Arm64 is a kind of arm64 CPU, by what XNNPACK finds there: the core, of which Linux tells the main ID register in
// /proc/cpuinfo, and the features, which it tells in the auxiliary vector.
type Arm64 struct {
	Name     string
	MIDR     uint32 // main ID register of the largest core; of an unlisted core if it has no implementer
	Features ArmFeatures
}

// unlisted is the main ID register of a core that XNNPACK knows nothing of.
const unlisted = 0x000f0000

// arm64CPUs are the cores that XNNPACK distinguishes, and features of cores that it does not know.
var arm64CPUs = []Arm64{
	{"cortex-a35", 0x410fd041, ARMv8},
	{"cortex-a53", 0x410fd034, ARMv8},
	{"cortex-a57", 0x411fd070, ARMv8},
	{"cortex-a72", 0x410fd083, ARMv8},
	{"cortex-a73", 0x410fd092, ARMv8},
	{"kryo", 0x511f2052, ARMv8},
	{"exynos-m1", 0x531f0011, ARMv8},
	{"exynos-m3", 0x531f0020, ARMv8},
	{"kryo-385", 0x516f802d, FP16},
	{"cortex-a55", 0x412fd050, DotProd},
	{"cortex-a75", 0x413fd0a0, DotProd},
	{"cortex-a76", 0x414fd0b1, DotProd},
	{"cortex-a77", 0x411fd0d0, DotProd},
	{"cortex-a78", 0x411fd410, DotProd},
	{"cortex-x1", 0x411fd440, DotProd},
	{"neoverse-n1", 0x413fd0c1, DotProd},
	{"exynos-m4", 0x531f0030, DotProd},
	{"exynos-m5", 0x531f0040, DotProd},
	{"oryon", 0x510f0011, I8MM},
	{"cortex-a510", 0x411fd460, SVE},
	{"cortex-a520", 0x410fd800, SVE},
	{"cortex-a710", 0x412fd470, SVE},
	{"cortex-a715", 0x411fd4d0, SVE},
	{"cortex-a720", 0x410fd810, SVE},
	{"cortex-a725", 0x410fd870, SVE},
	{"cortex-x2", 0x412fd480, SVE},
	{"cortex-x3", 0x411fd4e0, SVE},
	{"cortex-x4", 0x410fd820, SVE},
	{"cortex-x925", 0x410fd850, SVE},
	{"neoverse-n2", 0x410fd490, SVE},
	{"neoverse-v1", 0x411fd400, SVE},
	{"neoverse-v2", 0x410fd4f0, SVE},
	{"armv8", unlisted, ARMv8},
	{"fp16", unlisted, FP16},
	{"dotprod", unlisted, DotProd},
	{"i8mm", unlisted, I8MM},
	{"bf16", unlisted, I8MM},
	{"sve", unlisted, SVE},
	{"max", unlisted, SVE},
}

// withSME are names of CPUs and features with SME. Its kernels compute other numbers under the emulator, so nothing
// proves what is packed for them there.
var withSME = []string{"sme", "sme2", "c1-ultra", "c1-premium", "c1-pro", "c1-nano", "apple-m4"}

// Phones are CPUs of which each packs differently: with a file for each, most phones of ten years are served.
var Phones = []string{"cortex-a53", "cortex-a76", "cortex-a710", "cortex-x4"}

// families are left out of short names: a53, n1.
var families = []string{"cortex-", "neoverse-"}

// Arm64Names returns the names that Arm64Named knows, without the short ones.
func Arm64Names() []string {
	var names []string
	for _, c := range arm64CPUs {
		names = append(names, c.Name)
	}
	return names
}

// Arm64Named returns the CPU of a name: a core's, as "cortex-a76" or "a76", or a feature's, as "dotprod". The error
// has the names.
func Arm64Named(name string) (Arm64, error) {
	name = strings.ToLower(name)
	if slices.Contains(withSME, name) {
		return Arm64{}, fmt.Errorf("%s: kernels for SME compute other numbers under the emulator than on a CPU; "+
			"pack on such a machine", name)
	}
	for _, c := range arm64CPUs {
		if c.Name == name {
			return c, nil
		}
		for _, family := range families {
			if c.Name == family+name {
				return c, nil
			}
		}
	}
	return Arm64{}, fmt.Errorf("no arm64 CPU has the name %q; known are %s", name, strings.Join(Arm64Names(), ", "))
}

// core returns the bits of a main ID register that name a core: implementer and part.
func core(midr uint32) uint32 { return midr & 0xff00fff0 }

// coreName names the core of a main ID register; "" if it is not listed.
func coreName(midr uint32) string {
	for _, c := range arm64CPUs {
		if core(c.MIDR) == core(midr) && core(midr) != core(unlisted) {
			return c.Name
		}
	}
	return ""
}

// A processor is what /proc/cpuinfo has of one.
type processor struct {
	number int
	midr   uint32
}

// parseCPUInfo reads the processors of an arm64 /proc/cpuinfo. It ignores what it does not understand.
func parseCPUInfo(text string) (processors []processor) {
	fields := map[string]func(p *processor, n uint32){
		"CPU implementer": func(p *processor, n uint32) { p.midr |= n << 24 },
		"CPU variant":     func(p *processor, n uint32) { p.midr |= n & 0xf << 20 },
		"CPU part":        func(p *processor, n uint32) { p.midr |= n & 0xfff << 4 },
		"CPU revision":    func(p *processor, n uint32) { p.midr |= n & 0xf },
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		var n uint32
		if _, err := fmt.Sscanf(strings.TrimSpace(value), "%v", &n); err != nil {
			continue
		}
		key = strings.TrimSpace(key)
		if key == "processor" {
			processors = append(processors, processor{number: int(n)})
		} else if set := fields[key]; set != nil && len(processors) > 0 {
			set(&processors[len(processors)-1], n)
		}
	}
	return processors
}

// words are the features as Features names them.
func (f ArmFeatures) words() []string {
	return []string{"neon", "fp16", "dot", "i8mm"}[:min(int(f), int(I8MM))+1]
}

// String is what Features returns on such a CPU.
func (c Arm64) String() string {
	names := c.Features.words()
	if name := coreName(c.MIDR); name != "" {
		names = append([]string{name}, names...)
	}
	return strings.Join(names, " ")
}

// Check returns an error if this process does not run on such a CPU.
func (c Arm64) Check() error {
	if runtime.GOARCH != "arm64" || Features() != c.String() {
		return fmt.Errorf("this is no %s, which is %q: the emulator shows %q", c.Name, c, Name())
	}
	return nil
}
