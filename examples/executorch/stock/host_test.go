//go:build linux && cgo

package stock

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	PackedEntries int   `json:"packed_entries"` // into the cache, if there is one
	PackedBytes   int64 `json:"packed_bytes"`
	Methods       []struct {
		Name    string `json:"name"`
		Outputs int    `json:"outputs"` // their number
	} `json:"methods"`

	Log string `json:"-"` // what ExecuTorch logged
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

// pack packs a program ahead of time for the stock ExecuTorch on a level of CPU.
func pack(tool string, p program, cpu, file string) error {
	args := append([]string{"pack", p.path, "--for", "executorch", "--cpu", cpu, "-o", file}, p.data...)
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s pack: %w: %s", tool, err, bytes.TrimSpace(out))
	}
	return nil
}
