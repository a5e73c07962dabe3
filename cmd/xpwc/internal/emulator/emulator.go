// Package emulator runs this tool, built for arm64, on CPUs that qemu emulates. XNNPACK's own kernels for arm64 then
// pack on a machine of another architecture.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"xpwc/internal/cpu"
)

// ErrMissing: something that packing for arm64 needs is not installed. The message names it.
var ErrMissing = errors.New("packing for arm64 needs what is not installed here")

// Architecture is the emulated one, as GOARCH has it.
const Architecture = "arm64"

// libc is where Debian's cross compiler has the C library of arm64.
const libc = "/usr/aarch64-linux-gnu"

// An Emulator runs the tool of arm64.
type Emulator struct {
	qemu    string
	tool    string // the built tool
	sysroot string // a directory with the tool's system libraries; "" if this machine is arm64 itself
}

// Find finds qemu, the tool, and its system libraries. The error matches ErrMissing.
func Find() (*Emulator, error) {
	qemu, err := findQEMU()
	if err != nil {
		return nil, err
	}
	tool, err := Tool()
	if err != nil {
		return nil, err
	}
	if runtime.GOARCH == Architecture {
		return &Emulator{qemu: qemu, tool: tool}, nil
	}
	sysroot := libc
	if dir := os.Getenv("QEMU_LD_PREFIX"); dir != "" {
		sysroot = dir
	}
	if _, err := os.Stat(filepath.Join(sysroot, "lib")); err != nil {
		return nil, fmt.Errorf("%w: %s, the C and C++ libraries of arm64 (apt-get install libstdc++6-arm64-cross, or "+
			"set QEMU_LD_PREFIX to their root)", ErrMissing, sysroot)
	}
	return &Emulator{qemu, tool, sysroot}, nil
}

func findQEMU() (string, error) {
	for _, name := range []string{"qemu-aarch64-static", "qemu-aarch64"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: qemu-aarch64 (apt-get install qemu-user-static)", ErrMissing)
}

// Variable names the environment variable with the path of the tool of arm64, for one that is elsewhere.
const Variable = "XPWC_ARM64"

// Tool returns the path of the tool of arm64, which is this one on arm64. Elsewhere it is the file that [Variable]
// names, or in arm64/ next to this tool, where make build puts it, or in libexec/ of an installation. If Variable names
// a file it is the only one: another could have another XNNPACK. The error matches ErrMissing if there is none.
func Tool() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil || runtime.GOARCH == Architecture {
		return self, err
	}
	dir := filepath.Dir(self)
	if path := os.Getenv(Variable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: the xpwc of arm64 that %s names: %w", ErrMissing, Variable, err)
		}
		return path, nil
	}
	places := []string{filepath.Join(dir, Architecture, "xpwc"),
		filepath.Join(filepath.Dir(dir), "libexec", "xpwc", Architecture, "bin", "xpwc")}
	for _, path := range places {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	wanted := places[1] + " (unpack the wheel or the tarball of linux-arm64)"
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "go.mod")); err == nil {
		wanted = places[0] + " (make build ARCH=arm64)"
	}
	return "", fmt.Errorf("%w: the xpwc of arm64, %s; %s=FILE names another", ErrMissing, wanted, Variable)
}

// A Machine is what an emulated program finds.
type Machine struct {
	Features cpu.ArmFeatures
	Cores    []Core // one for each processor
}

// A Core is a processor of a machine.
type Core struct {
	MIDR uint32 // main ID register
	KHz  int    // highest frequency; 0 if the machine does not tell
}

// MachineOf returns a machine with one processor.
func MachineOf(c cpu.Arm64) Machine { return Machine{c.Features, []Core{{MIDR: c.MIDR}}} }

// model returns qemu's name of a CPU with the features. Most cores have no name there, but they have their main ID
// register, which qemu from 8.2 on shows in /proc/cpuinfo.
func (m Machine) model() string {
	name := map[cpu.ArmFeatures]string{
		cpu.ARMv8:   "cortex-a53",
		cpu.FP16:    "a64fx",
		cpu.DotProd: "cortex-a76",
		cpu.I8MM:    "max,sme=off,sve=off,pauth-impdef=on",
		cpu.SVE:     "max,sme=off,sve-default-vector-length=16,pauth-impdef=on",
	}[m.Features]
	return fmt.Sprintf("%s,midr=%#x", name, m.Cores[0].MIDR)
}

// Command returns a command that runs the tool on a machine. The caller calls remove when the command has ended, or
// will not be started.
func (e *Emulator) Command(ctx context.Context, m Machine, args ...string) (cmd *exec.Cmd, remove func(), err error) {
	return e.Program(ctx, m, append([]string{e.tool}, args...)...)
}

// Program is Command for another program of arm64, with its arguments.
func (e *Emulator) Program(ctx context.Context, m Machine, line ...string) (cmd *exec.Cmd, remove func(), err error) {
	r, err := newRoot()
	if err == nil {
		err = e.link(r.path)
	}
	if err == nil {
		err = m.write(r.path)
	}
	if err != nil {
		r.remove()
		return nil, nil, fmt.Errorf("the emulated machine's files in the directory for temporary files (TMPDIR): %w",
			err)
	}
	args := append([]string{"-L", r.path, "-cpu", m.model()}, line...)
	return exec.CommandContext(ctx, e.qemu, args...), r.remove, nil
}

// link puts links to the system libraries into a root.
func (e *Emulator) link(root string) error {
	if e.sysroot == "" {
		return nil
	}
	entries, err := os.ReadDir(e.sysroot)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "proc" && name != "sys" {
			if err := os.Symlink(filepath.Join(e.sysroot, name), filepath.Join(root, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes what the kernel tells of the processors into a root.
func (m Machine) write(root string) error {
	const sys = "sys/devices/system/cpu"
	var cpuinfo strings.Builder
	files := map[string]string{}
	for i, c := range m.Cores {
		cpuinfo.WriteString(c.cpuinfo(i))
		if c.KHz > 0 {
			files[fmt.Sprintf("%s/cpu%d/cpufreq/cpuinfo_max_freq", sys, i)] = fmt.Sprintln(c.KHz)
		}
	}
	numbers := "0\n"
	if last := len(m.Cores) - 1; last > 0 {
		numbers = fmt.Sprintf("0-%d\n", last)
	}
	files["proc/cpuinfo"] = cpuinfo.String()
	files[sys+"/possible"], files[sys+"/present"] = numbers, numbers
	for name, text := range files {
		if err := write(root, name, text); err != nil {
			return err
		}
	}
	return nil
}

func write(root, name, text string) error {
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// cpuinfo is a processor's part of /proc/cpuinfo. cpuinfo's code takes the features from the auxiliary vector.
func (c Core) cpuinfo(number int) string {
	return fmt.Sprintf("processor\t: %d\nBogoMIPS\t: 100.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x%02x\n"+
		"CPU architecture: 8\nCPU variant\t: 0x%x\nCPU part\t: 0x%03x\nCPU revision\t: %d\n\n",
		number, c.MIDR>>24, c.MIDR>>20&0xf, c.MIDR>>4&0xfff, c.MIDR&0xf)
}
