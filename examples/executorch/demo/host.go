package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// A program is an ExecuTorch program, with its external data and inputs for its methods.
type program struct {
	path   string
	data   []string // .ptd files
	inputs []string // .npy files, of all methods, one method after the other; none for made-up ones
}

// A host is the built program of examples/executorch: the stock ExecuTorch.
type host struct {
	path        string
	environment []string // added to this process'
}

// report is what the host prints.
type report struct {
	LoadMS        float64 `json:"load_ms"`        // the program and all its methods
	RSSAnonBytes  int64   `json:"rss_anon_bytes"` // after the first inference of all methods
	PackedEntries int     `json:"packed_entries"` // into the cache, if there is one
	PackedBytes   int64   `json:"packed_bytes"`
	Methods       []struct {
		Name     string  `json:"name"`
		Outputs  int     `json:"outputs"` // their number
		FirstMS  float64 `json:"first_inference_ms"`
		SteadyMS float64 `json:"steady_inference_ms"` // the median
	} `json:"methods"`

	FileBytes int64  `json:"-"` // of the cache, after the run
	Log       string `json:"-"` // what ExecuTorch logged
}

// run runs all methods of a program in a process of their own, with packed weights in the file cache, unless that is
// "", and writes the outputs into a directory: METHOD.outN.npy.
func (h host) run(p program, cache, outputs string) (*report, error) {
	args := append([]string{p.path}, p.data...)
	for _, input := range p.inputs {
		args = append(args, "--input", input)
	}
	if cache != "" {
		args = append(args, "--cache", cache)
	}
	cmd := exec.Command(h.path, append(args, "--output-dir", outputs)...)
	cmd.Env = append(os.Environ(), h.environment...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", h.path, err, bytes.TrimSpace(log.Bytes()))
	}
	r := report{Log: log.String()}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("%s: %w", h.path, err)
	}
	if cache != "" {
		// A runtime that delegates nothing to XNNPACK makes no file.
		info, err := os.Stat(cache)
		switch {
		case err == nil:
			r.FileBytes = info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return &r, nil
}

// outputFiles returns where the outputs of all methods are.
func (r *report) outputFiles(dir string) []string {
	var files []string
	for _, m := range r.Methods {
		for i := range m.Outputs {
			files = append(files, filepath.Join(dir, fmt.Sprintf("%s.out%d.npy", m.Name, i)))
		}
	}
	return files
}
