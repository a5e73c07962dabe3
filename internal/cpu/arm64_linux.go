package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// arm64Core names the largest core of this machine, the one by which XNNPACK chooses kernels: that of the highest
// frequency. It is "" if it is not listed.
var arm64Core = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	var largest processor
	highest := -1
	for _, p := range parseCPUInfo(string(text)) {
		frequency := 0
		b, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", p.number))
		if err == nil {
			_, _ = fmt.Sscan(strings.TrimSpace(string(b)), &frequency)
		}
		if frequency > highest {
			largest, highest = p, frequency
		}
	}
	return coreName(largest.midr)
})

func hasI8MM() bool { return cpu.ARM64.HasI8MM }
