package optable

import (
	"os"
	"runtime"
	"strings"

	"xpwc/xnnpack"
)

// CPU is a processor that a process of tests can choose its kernels for. XNNPACK chooses once a process.
type CPU struct {
	Name string
	// Environment is what a process of tests must have in its environment to be on this CPU.
	Environment string
}

const (
	levelVariable = "XPWC_TEST_CPU" // a level of xnnpack.LimitCPU
	// EmulatedCPUs names the variable that lists the CPUs, separated by spaces, to request from the emulator that tests
	// run under: CPUs of qemu-user for arm64.
	EmulatedCPUs     = "XPWC_TEST_EMULATED_CPUS"
	emulatorVariable = "QEMU_CPU"
)

// CPUs returns the CPUs to test: on amd64 the levels of xnnpack.LimitCPU, some of which this machine may lack;
// elsewhere the emulated ones, if any.
func CPUs() []CPU {
	names, variable := strings.Fields(os.Getenv(EmulatedCPUs)), emulatorVariable
	if runtime.GOARCH == "amd64" {
		names, variable = xnnpack.CPULevels(), levelVariable
	}
	var cpus []CPU
	for _, name := range names {
		cpus = append(cpus, CPU{name, variable + "=" + name})
	}
	return cpus
}

// Lacking is the status with which a process of tests ends if this machine lacks the features of the CPU it is to be
// on.
const Lacking = 77

// EnterCPU puts this process on the CPU of its environment; it comes before anything else of XNNPACK. Where there is
// no such CPU the error matches xnnpack.UnsupportedHardware.
func EnterCPU() error {
	if level := os.Getenv(levelVariable); level != "" {
		return xnnpack.LimitCPU(level)
	}
	return nil
}
