package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cmd/xpwc/internal/emulator"
	"xpwc/internal/cpu"
	"xpwc/xnnpack"
)

// targetPrefix begins the level of a CPU that is emulated, as arm64:cortex-a76. Other levels are of this machine.
const targetPrefix = emulator.Architecture + ":"

// targetFlag is the flag for CPUs of another architecture.
func targetFlag(cmd *cobra.Command, targets *[]string, does string) {
	cmd.Flags().StringSliceVar(targets, "target", nil,
		"emulated `CPU`s "+does+": arm64:NAME, as arm64:cortex-a76, arm64:x4, arm64:dotprod")
}

// isTarget reports whether a level is a CPU that is emulated.
func isTarget(level string) bool { return strings.HasPrefix(level, targetPrefix) }

// machineOf returns the architecture of a level, as GOARCH has it, and its name there.
func machineOf(level string) (architecture, name string) {
	if name, ok := strings.CutPrefix(level, targetPrefix); ok {
		return emulator.Architecture, name
	}
	return runtime.GOARCH, level
}

// levelsOf returns the levels that --cpu and --target name together, each once. Without --cpu only the targets are
// meant.
func levelsOf(cmd *cobra.Command, levels, targets []string) (union []string, err error) {
	if len(targets) > 0 && !cmd.Flags().Changed("cpu") {
		levels = nil
	}
	for _, target := range targets {
		named, err := parseTarget(target)
		if err != nil {
			return nil, err
		}
		levels = append(slices.Clone(levels), named...)
	}
	for _, level := range levels {
		if err := checkLevel(level); err != nil {
			return nil, err
		}
		if !slices.Contains(union, level) {
			union = append(union, level)
		}
	}
	if len(union) == 0 {
		return nil, usagef("--cpu: no level is given")
	}
	return union, nil
}

// levelOf is levelsOf for a command that has one level.
func levelOf(cmd *cobra.Command, level string, targets []string) (string, error) {
	levels, err := levelsOf(cmd, []string{level}, targets)
	if err != nil {
		return "", err
	}
	if len(levels) > 1 {
		return "", usagef("%s is for one CPU, and %s are named", cmd.CommandPath(), strings.Join(levels, ", "))
	}
	return levels[0], nil
}

// parseTarget returns the levels that a value of --target names. The architecture alone stands for the CPUs of phones.
func parseTarget(target string) (levels []string, err error) {
	architecture, name, named := strings.Cut(target, ":")
	if architecture != emulator.Architecture {
		return nil, usagef("--target %s: the only architecture is %s, as in %scortex-a76", target,
			emulator.Architecture, targetPrefix)
	}
	names := cpu.Phones
	if named {
		names = []string{name}
	}
	for _, name := range names {
		c, err := cpu.Arm64Named(name)
		if err != nil {
			return nil, usagef("--target %s: %w", target, err)
		}
		levels = append(levels, targetPrefix+c.Name)
	}
	return levels, nil
}

// litertTargets replaces the architecture alone by those CPUs of phones that LiteRT's library runs on: it was compiled
// for dot products.
func litertTargets(targets []string) (expanded []string) {
	for _, target := range targets {
		if target != emulator.Architecture {
			expanded = append(expanded, target)
			continue
		}
		for _, name := range cpu.Phones {
			if c, err := cpu.Arm64Named(name); err == nil && c.Features >= cpu.DotProd {
				expanded = append(expanded, targetPrefix+name)
			}
		}
	}
	return expanded
}

// selfOn returns a command that runs this tool: for a level of this machine the tool itself, and for a target the
// emulated one. The caller calls remove when the command has ended.
func selfOn(ctx context.Context, self, level string, args ...string) (cmd *exec.Cmd, remove func(), err error) {
	if !isTarget(level) {
		return exec.CommandContext(ctx, self, args...), func() {}, nil
	}
	_, name := machineOf(level)
	c, err := cpu.Arm64Named(name)
	if err != nil {
		return nil, nil, err
	}
	e, err := emulator.Find()
	if err != nil {
		return nil, nil, err
	}
	cmd, removed, err := e.Command(ctx, emulator.MachineOf(c), args...)
	if err != nil {
		return nil, nil, err
	}
	forget := jobOf(ctx).onInterrupt(removed)
	return cmd, func() { forget(); removed() }, nil
}

// limitCPU limits this process to a level. For a target it checks that the emulator shows that CPU: XNNPACK would
// choose the kernels of another one.
func limitCPU(level string) error {
	if !isTarget(level) {
		return xnnpack.LimitCPU(level)
	}
	_, name := machineOf(level)
	c, err := cpu.Arm64Named(name)
	if err == nil {
		err = c.Check()
	}
	return err
}

// layoutOn returns the layout of a level. For this machine's own CPU it asks XNNPACK, for a target the emulated tool.
func layoutOn(ctx context.Context, level string) (l machineLayout, err error) {
	if !isTarget(level) {
		current, err := xpwc.CurrentLayout()
		return machineLayout{Layout: current.Fingerprint.String(), Description: current.Description,
			XNNPACK: xnnpack.BuildIdentifier(), Runtimes: stockRuntimes()}, err
	}
	cmd, remove, err := selfOn(ctx, "", level, "layout", "--json")
	if err != nil {
		return l, err
	}
	defer remove()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil {
		return l, fmt.Errorf("the layout of %s: %w", level, errors.Join(err, errorText(stderr.String())))
	}
	return l, nil
}

// errorText returns what a process printed as an error; nil if that is nothing.
func errorText(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}
