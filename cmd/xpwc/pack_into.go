package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/modelfile"
	"xpwc/models"
	"xpwc/xnnpack"
)

// packedLevel is the result of packing for one level of CPU.
type packedLevel struct {
	CPU         string        `json:"cpu"`
	Layout      string        `json:"layout"` // what XNNPACK chooses for it: the fingerprint
	Description string        `json:"description"`
	Packed      int64         `json:"packed"`
	PackedBytes int64         `json:"packed_bytes"`
	Found       int64         `json:"hits"`
	Reused      int64         `json:"reused"`
	Private     int64         `json:"private"`
	Reasons     []xpwc.Reason `json:"private_reasons,omitempty"`
	Written     int64         `json:"written_bytes"`
	TotalMS     float64       `json:"total_ms"`
}

// fileFigures describe the cache file.
type fileFigures struct {
	Entries      int   `json:"entry_count"`
	PayloadBytes int64 `json:"payload_bytes"`
	FileBytes    int64 `json:"file_bytes"`
}

// nothing reports whether the model has no weights that XNNPACK packs through a cache.
func (l *packedLevel) nothing() bool { return l.Packed+l.Found+l.Reused == 0 }

// packedInto is what the process of one level reports: Level, which one that packs for LiteRT has not, or why it
// failed.
type packedInto struct {
	Level *packedLevel `json:"level,omitempty"`
	Error *failure     `json:"error,omitempty"`
}

// packLevel packs for one level of CPU in a process of its own: XNNPACK chooses its kernels once in a process, and only
// the end of the process stops its packing.
func packLevel(ctx context.Context, model modelfile.File, s *stage, level string) (*packedLevel, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name := s.byName()
	cmd := exec.CommandContext(ctx, self, "pack-into", "--cpu", level, "--description", model.Description,
		"--by-name", name, "--", s.path, model.Path)
	cmd.Args = append(cmd.Args, model.Data...)
	if name == "" {
		cmd.ExtraFiles = []*os.File{s.File.File}
	}
	cmd.Stderr = s.job.stderr
	p, err := s.packIn(cmd, level)
	if err != nil {
		return nil, err
	}
	return p.Level, s.reopen(name)
}

// packIn runs a process that packs for a level, and returns what it reports.
func (s *stage) packIn(cmd *exec.Cmd, level string) (*packedInto, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	// An interrupt ends the process with the context, and waits until it has.
	ended := make(chan struct{})
	defer s.job.onInterrupt(func() { <-ended })()
	defer close(ended)
	err := cmd.Run()
	p := &packedInto{}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && stopped(exit):
		err = errInterrupted
	case errors.As(err, &exit) && exit.ExitCode() == exitFailed:
		err = errors.New("failed; see above")
	case err == nil:
		if err = json.Unmarshal(out.Bytes(), p); err == nil && p.Error != nil {
			err = p.Error
		}
	}
	if err != nil {
		return nil, fmt.Errorf("packing for %s: %w", level, err)
	}
	return p, nil
}

// stopped reports whether a process was ended by an interrupt.
func stopped(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains(interrupts, os.Signal(status.Signal()))
}

// newPackIntoCommand is the command of the processes that pack starts, one for each level.
func newPackIntoCommand() *cobra.Command {
	var level, description, name string
	cmd := &cobra.Command{
		Use:    "pack-into CACHE MODEL [DATA...]",
		Hidden: true,
		Args:   usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := xnnpack.LimitCPU(level); err != nil {
				return err
			}
			file := modelfile.File{Path: args[1], Description: description, Data: args[2:]}
			var into *os.File
			if name == "" {
				into = os.NewFile(inherited, args[0])
			}
			p := &packedInto{}
			var err error
			if p.Level, err = packInto(cmd.Context(), file, into, name, level); err != nil {
				p.Error = &failure{kindOf(err), explain(err), exitFailed}
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
		},
	}
	cmd.Flags().StringVar(&level, "cpu", native, "")
	descriptionFlag(cmd, &description)
	cmd.Flags().StringVar(&name, "by-name", "", "")
	return cmd
}

// packInto packs a model into a new file, which openNew opens: into is nil where it has a name.
func packInto(ctx context.Context, model modelfile.File, into *os.File, name, level string) (
	l *packedLevel, err error) {
	start := time.Now()
	weights, err := model.OpenAllWeights()
	defer func() {
		for _, w := range weights {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	var total int64
	for _, w := range weights {
		total += w.WeightBytes()
	}
	layout, err := xpwc.CurrentLayout()
	if err != nil {
		return nil, err
	}
	progress := newProgress(ctx, "packing for "+level)
	progress.Update(0, total)
	var before, done int64 // of the subgraphs before, and of this one
	packed := func(now xpwc.Progress) {
		done = now.Done
		progress.Update(min(before+done, total), total)
	}
	cache, err := openNew(into, name, &xpwc.Options{Strict: true, Progress: packed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	for _, w := range weights {
		for _, subgraph := range modelfile.Subgraphs(w) {
			if err := models.Pack(cache, w.DataMap(), subgraph); err != nil {
				return nil, err
			}
			before, done = before+done, 0
		}
	}
	progress.Finish()
	if err := cache.Save(); err != nil {
		return nil, err
	}
	all := cache.Stats()
	l = &packedLevel{
		CPU: level, Layout: layout.Fingerprint.String(), Description: layout.Description,
		Packed: all.Packed.Entries, PackedBytes: all.Packed.Bytes, Written: all.WrittenBytes,
		Found: all.Hits.Entries, Reused: all.Reused.Entries,
		TotalMS: console.Milliseconds(time.Since(start)),
	}
	l.Private, l.Reasons = execution.Private(all)
	for _, reason := range l.Reasons {
		if reason != xpwc.ReasonUnnamed {
			return nil, fmt.Errorf("not everything could be packed into the file (%s): %w", reason, all.LastError)
		}
	}
	return l, nil
}
