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
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/described"
	"xpwc/internal/bench/terminal"
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
	Late        int64         `json:"packed_by_the_whole"` // not by a share
	Written     int64         `json:"written_bytes"`
	PackingMS   float64       `json:"packing_ms"` // the sum over all cores
	TotalMS     float64       `json:"total_ms"`

	file fileFigures
}

// fileFigures describe the cache file.
type fileFigures struct {
	Entries      int   `json:"entry_count"`
	PayloadBytes int64 `json:"payload_bytes"`
	FileBytes    int64 `json:"file_bytes"`
}

// packedInto is what the process of one level reports. Error is why it failed: then the others are empty.
type packedInto struct {
	Level packedLevel `json:"level"`
	File  fileFigures `json:"file"`
	Error *failure    `json:"error,omitempty"`
}

// packLevel packs for one level of CPU in a process of its own: XNNPACK chooses its kernels once in a process, and only
// the end of the process stops its packing.
func packLevel(ctx context.Context, model modelfile.File, s *stage, level string, o packOptions) (packedLevel, error) {
	self, err := os.Executable()
	if err != nil {
		return packedLevel{}, err
	}
	name := s.byName()
	cmd := exec.CommandContext(ctx, self, "pack-into", "--cpu", level, "--jobs", strconv.Itoa(o.jobs),
		"--description", model.Description, "--portable="+strconv.FormatBool(o.embed),
		"--by-name", name, "--", s.path, model.Path)
	cmd.Args = append(cmd.Args, model.Data...)
	if name == "" {
		cmd.ExtraFiles = []*os.File{s.File.File}
	}
	cmd.Stderr = s.job.stderr
	p, err := s.packIn(cmd, level)
	if err != nil {
		return packedLevel{}, err
	}
	p.Level.file = p.File
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
	const inherited = 3 // the first of exec.Cmd.ExtraFiles
	var level, description, name string
	var jobs int
	var portable bool
	cmd := &cobra.Command{
		Use:    "pack-into CACHE MODEL [DATA...]",
		Hidden: true,
		Args:   usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(checkJobs(&jobs), xnnpack.LimitCPU(level)); err != nil {
				return err
			}
			file := modelfile.File{Path: args[1], Description: description, Data: args[2:]}
			var into *os.File
			if name == "" {
				into = os.NewFile(inherited, args[0])
			}
			p, err := packInto(cmd.Context(), file, into, name, level, jobs, portable)
			if err != nil {
				p = &packedInto{Error: failureOf(cmd, err, explain(err), exitFailed)}
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
		},
	}
	cmd.Flags().StringVar(&level, "cpu", native, "")
	jobsFlag(cmd, &jobs)
	descriptionFlag(cmd, &description)
	cmd.Flags().StringVar(&name, "by-name", "", "")
	cmd.Flags().BoolVar(&portable, "portable", false, "")
	return cmd
}

// packInto packs a model into a new file, which openNew opens: into is nil where it has a name.
func packInto(ctx context.Context, model modelfile.File, into *os.File, name, level string, jobs int,
	portable bool) (p *packedInto, err error) {
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
	parts := make([]part, len(weights))
	var total int64
	for i, w := range weights {
		parts[i] = part{weights: w, shares: w.Shares(jobs)}
		if parts[i].data, err = packedTensors(w, portable); err != nil {
			return nil, err
		}
		for _, s := range parts[i].shares {
			total += s.Bytes
		}
	}
	layout, err := xpwc.CurrentLayout()
	if err != nil {
		return nil, err
	}
	progress := newPackingProgress(ctx, "packing for "+level, total)
	cache, err := openNew(into, name, &xpwc.Options{Strict: true, Progress: progress.packed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	for _, of := range parts {
		if err := packShares(cache, of.data, of.shares); err != nil {
			return nil, err
		}
	}
	progress.Finish()
	shared := cache.Stats()
	for _, of := range parts {
		if err := of.packMissed(cache); err != nil {
			return nil, err
		}
	}
	if err := cache.Save(); err != nil {
		return nil, err
	}
	all := cache.Stats()
	p = &packedInto{
		Level: packedLevel{
			CPU: level, Layout: layout.Fingerprint.String(), Description: layout.Description,
			Packed: all.Packed.Entries, PackedBytes: all.Packed.Bytes, Written: all.WrittenBytes,
			Found: shared.Hits.Entries, Reused: shared.Reused.Entries, Late: all.Packed.Entries - shared.Packed.Entries,
			PackingMS: console.Milliseconds(all.PackingTime), TotalMS: console.Milliseconds(time.Since(start)),
		},
		File: fileFigures{Entries: all.Entries, PayloadBytes: all.PayloadBytes, FileBytes: all.FileBytes},
	}
	p.Level.Private, p.Level.Reasons = execution.Private(shared)
	for _, reason := range p.Level.Reasons {
		if reason != xpwc.ReasonUnnamed {
			return nil, fmt.Errorf("not everything could be packed into the file (%s): %w", reason, all.LastError)
		}
	}
	return p, nil
}

// A part is what is packed of a model with one data map.
type part struct {
	weights modelfile.Weights
	data    xpwc.DataMap
	shares  []models.Share
}

// packMissed packs what an ordinary load would still miss, by such loads.
func (p part) packMissed(cache *xpwc.Cache) error {
	for _, whole := range modelfile.Runnable(p.weights) {
		stages, _ := models.StagesOf(whole)
		for _, stage := range stages {
			if stage.Subgraph == nil {
				continue
			}
			if err := models.Pack(cache, p.data, stage.Subgraph); err != nil {
				return err
			}
		}
	}
	return nil
}

// packedTensors are what a model's weights are packed from; portable ones are known again in any copy of the model.
func packedTensors(m modelfile.Weights, portable bool) (xpwc.DataMap, error) {
	if !portable {
		return m.DataMap(), nil
	}
	d, ok := m.(*described.Model)
	if !ok || d.File() == nil {
		return nil, errors.ErrUnsupported
	}
	return d.File().Sealed()
}

// packShares packs each share on a goroutine of its own.
func packShares(cache *xpwc.Cache, data xpwc.DataMap, shares []models.Share) error {
	errs := make([]error, len(shares))
	var group sync.WaitGroup
	for i, s := range shares {
		group.Go(func() { errs[i] = models.Pack(cache, data, s.Subgraph) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// packingProgress adds up the progress of several sessions.
type packingProgress struct {
	*terminal.Progress
	total int64

	mu   sync.Mutex
	done map[*xpwc.Session]int64
}

func newPackingProgress(ctx context.Context, what string, total int64) *packingProgress {
	p := &packingProgress{Progress: newProgress(ctx, what), total: total, done: map[*xpwc.Session]int64{}}
	p.Update(0, p.total)
	return p
}

func (p *packingProgress) packed(now xpwc.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[now.Session] = now.Done
	var done int64
	for _, n := range p.done {
		done += n
	}
	p.Update(min(done, p.total), p.total)
}
