package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"xpwc/models/litert/stock"
	"xpwc/xnnpack"
)

// packedLevel is the result of packing for one level of CPU.
type packedLevel struct {
	CPU         string        `json:"cpu"`
	Layout      string        `json:"layout"` // what XNNPACK chooses for it: the fingerprint
	Description string        `json:"description"`
	Packed      int64         `json:"packed"`
	PackedBytes int64         `json:"packed_bytes"`
	Hits        int64         `json:"hits"`
	Reused      int64         `json:"reused"`
	Private     int64         `json:"private"`
	Reasons     []xpwc.Reason `json:"private_reasons,omitempty"`
	Written     int64         `json:"written_bytes"`
	TotalMS     float64       `json:"total_ms"`
	XNNPACK     string        `json:"xnnpack_build_identifier,omitempty"`
}

// fileFigures describe the cache file.
type fileFigures struct {
	Entries      int   `json:"entry_count"`
	PayloadBytes int64 `json:"payload_bytes"`
	FileBytes    int64 `json:"file_bytes"`
}

// nothing reports whether the model has no weights that XNNPACK packs through a cache.
func (l *packedLevel) nothing() bool { return l.Packed+l.Hits+l.Reused == 0 }

// packedInto is the report of the process of one level: Level, which a LiteRT packer leaves empty, or its error.
type packedInto struct {
	Level *packedLevel `json:"level,omitempty"`
	Error *failure     `json:"error,omitempty"`
}

// A packJob is the task of a packing process: pack a model for a level of CPU into a file that it inherits, or one
// with a name. XNNPACK chooses its kernels once in a process, and only the end of the process stops its packing.
type packJob struct {
	Model  modelfile.File
	CPU    string // level
	Path   string // of the output, for errors
	Name   string // of the new file; "" for the first file that is inherited
	Stock  bool   // a program is packed as the stock runtime packs it, and not as it is run here
	LiteRT string // the library by which LiteRT's code packs in place of XNNPACK; "" for XNNPACK
	Answer bool   // for LiteRT: the model's answer goes to the third inherited file
}

const inherited = 3 // descriptor of the first of exec.Cmd.ExtraFiles

// packLevel packs into the output in a process of its own.
func (s *pendingOutput) packLevel(job packJob) (*packedLevel, error) {
	job.Path = s.path
	return s.packHere(job)
}

// packHere packs into the file in a process of its own.
func (f *newFile) packHere(job packJob) (*packedLevel, error) {
	job.Name = f.byName()
	var files []*os.File
	if job.Name == "" {
		files = []*os.File{f.File.File}
	}
	l, err := f.packIn(job, jobOf(f.ctx).stderr, files...)
	if err != nil {
		return nil, err
	}
	return l, f.reopen(job.Name)
}

// packIn runs a job in a process of its own, which inherits files, and returns its report.
func (f *newFile) packIn(job packJob, stderr io.Writer, files ...*os.File) (*packedLevel, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var in, out bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(job); err != nil {
		return nil, err
	}
	cmd, remove, err := selfOn(f.ctx, self, job.CPU, "pack-into")
	if err != nil {
		return nil, err
	}
	defer remove()
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &in, &out, stderr, files
	// An interrupt ends the process with the context, and waits until it has.
	ended := make(chan struct{})
	defer jobOf(f.ctx).onInterrupt(func() { <-ended })()
	defer close(ended)
	err = cmd.Run()
	p := packedInto{}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && stopped(exit):
		err = errInterrupted
	case errors.As(err, &exit) && exit.ExitCode() == exitFailed:
		err = errors.New("failed; see above")
	case err == nil:
		if err = json.Unmarshal(out.Bytes(), &p); err == nil && p.Error != nil {
			err = p.Error
		}
	}
	if err != nil {
		return nil, fmt.Errorf("packing for %s: %w", job.CPU, err)
	}
	return p.Level, nil
}

// errIllegal: a library for arm64 was built for greater CPUs than the target.
var errIllegal = errors.New("the library has instructions that this CPU does not have, and ended with SIGILL: it " +
	"packs for greater CPUs only, such as arm64:dotprod")

// stopped reports whether a process was ended by an interrupt.
func stopped(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains(interrupts, os.Signal(status.Signal()))
}

// newPackIntoCommand is the command of the processes that pack starts, one for each level. Its job is on standard
// input, since paths may have any bytes.
func newPackIntoCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "pack-into",
		Hidden: true,
		Args:   usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var job packJob
			if err := gob.NewDecoder(cmd.InOrStdin()).Decode(&job); err != nil {
				return err
			}
			var p packedInto
			var err error
			if p.Level, err = job.run(cmd.Context()); err != nil {
				p.Error = &failure{kindOf(err), explain(err), exitFailed}
			}
			b, err := json.Marshal(p)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(escapeJSON(b))
			return err
		},
	}
}

// run does the job in this process.
func (j *packJob) run(ctx context.Context) (*packedLevel, error) {
	var dst *os.File
	if j.Name == "" {
		dst = os.NewFile(inherited, j.Path)
	}
	if j.LiteRT != "" {
		model, err := j.Model.Model()
		if err != nil {
			return nil, err
		}
		job := stock.Job{Library: j.LiteRT, Model: model.Path, Offset: model.Offset, Size: model.Size, CPU: j.CPU,
			Into: dst}
		if isTarget(j.CPU) {
			if err := limitCPU(j.CPU); err != nil {
				return nil, err
			}
			job.CPU = native
		}
		if j.Answer {
			job.Answers = os.NewFile(inherited+2, "the answers")
		}
		return nil, job.Pack()
	}
	if err := limitCPU(j.CPU); err != nil {
		return nil, err
	}
	return j.pack(ctx, dst)
}

// pack packs the model with this process's XNNPACK into a new file, which openNew opens.
func (j *packJob) pack(ctx context.Context, dst *os.File) (l *packedLevel, err error) {
	start := time.Now()
	weights, err := j.Model.OpenAllWeights()
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
	progress := newProgress(ctx, "packing for "+j.CPU)
	progress.Update(0, total)
	var previous, done int64 // of the subgraphs before, and of this one
	packed := func(subgraph xpwc.Progress) {
		done = subgraph.Done
		progress.Update(min(previous+done, total), total)
	}
	cache, err := openNew(dst, j.Name, &xpwc.Options{Strict: true, Progress: packed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	for _, w := range weights {
		data := modelfile.DataMap(w, j.Stock)
		for _, subgraph := range modelfile.Subgraphs(w, j.Stock) {
			if err := models.Pack(cache, data, subgraph); err != nil {
				return nil, err
			}
			previous, done = previous+done, 0
		}
	}
	progress.Finish()
	if err := cache.Save(); err != nil {
		return nil, err
	}
	stats := cache.Stats()
	l = &packedLevel{
		CPU: j.CPU, Layout: layout.Fingerprint.String(), Description: layout.Description,
		Packed: stats.Packed.Entries, PackedBytes: stats.Packed.Bytes, Written: stats.WrittenBytes,
		Hits: stats.Hits.Entries, Reused: stats.Reused.Entries,
		TotalMS: console.Milliseconds(time.Since(start)), XNNPACK: xnnpack.BuildIdentifier(),
	}
	l.Private, l.Reasons = execution.Private(stats)
	for _, reason := range l.Reasons {
		if reason != xpwc.ReasonUnnamed {
			return nil, fmt.Errorf("not everything could be packed into the file (%s): %w", reason, stats.LastError)
		}
	}
	return l, nil
}
