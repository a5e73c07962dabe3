package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"xpwc/inference"
	"xpwc/internal/modelfile"
	"xpwc/npy"
)

// Programs is the directory of the hosts of the peers, and of what these need. What is not there is not measured.
type Programs string

// The files of Programs.
const (
	litertHost     = "litert"          // internal/bench/litert
	readerHost     = "reader"          // internal/bench/reader
	executorchHost = "executorch/host" // examples/executorch
	dropInLibrary  = "drop_in.so"      // the class on the reader, in place of the one in ExecuTorch's backend
	packTool       = "xpwc"            // the tool, built with the XNNPACK of ExecuTorch, to pack ahead for the others
)

// path is where a file is, or "".
func (p Programs) path(name string) string {
	if path := filepath.Join(string(p), name); p != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// peers are those that can run a model.
type peers struct {
	Programs
	model   string
	base    string // the beginning of the names of cache files
	outputs outputDir
}

// A command is that of a host with a cache file, or none if that is "".
type command func(cache string) []string

// waysOf are those of a peer.
func (p peers) waysOf(peer string, run command) []*way {
	var all []*way
	for _, s := range []start{withoutCache, firstStart, nextStart} {
		w := &way{modeResult: modeResult{Mode: peer + ", " + string(s)}, start: s}
		if s != withoutCache {
			w.cache = p.base + "." + peer + "." + string(s[:5])
		}
		w.command = run(w.cache)
		all = append(all, w)
	}
	return all
}

// packed is a way of which the tool packs the file ahead.
func (p peers) packed(name, cache string, run command, options ...string) *way {
	w := &way{modeResult: modeResult{Mode: name}, start: nextStart, cache: p.base + "." + cache + ".packed"}
	w.command = append(asUser(), run(w.cache)...)
	w.pack = func(ctx context.Context) error {
		args := append([]string{"pack", p.model, "-o", w.cache}, options...)
		out, err := exec.CommandContext(ctx, p.path(packTool), args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("xpwc pack: %w: %s", err, out)
		}
		// Of a sealed file it says the digest of the model, which its readers are given.
		if _, said, found := strings.Cut(string(out), "sealed for the model "); found {
			for i, argument := range w.command {
				w.command[i] = strings.Replace(argument, digestHere, strings.Fields(said)[0], 1)
			}
		}
		return nil
	}
	return w
}

// digestHere stands in a command for what is known when the file is packed.
const digestHere = "DIGEST"

// ofModel are the ways of a .tflite model. The reader's host can run a generated one and nothing else.
func (p peers) ofModel(generated bool) ([]*way, error) {
	all, err := p.own()
	if host := p.path(litertHost); host != "" {
		run := func(cache string) []string { return []string{host, p.model, cache, p.outputs.answer()} }
		all = append(all, p.waysOf("LiteRT", run)...)
		if p.path(packTool) != "" {
			all = append(all, p.packed("LiteRT, packed by xpwc", "LiteRT", run, "--for", "litert"))
		}
	}
	if host := p.path(readerHost); generated && host != "" && p.path(packTool) != "" {
		kind := "float32"
		if strings.HasSuffix(p.model, inInt8) {
			kind = "int8"
		}
		run := func(cache string) []string {
			return []string{host, p.model, kind, cache, p.outputs.answer(), digestHere}
		}
		all = append(all, p.waysOf("reader", run)[0], p.packed("reader, packed by xpwc", "reader", run, "--sealed"))
	}
	return all, err
}

// ofProgram are the ways of a .pte program.
func (p peers) ofProgram() ([]*way, error) {
	all, err := p.own()
	host := p.path(executorchHost)
	if err != nil || host == "" {
		return all, err
	}
	run := func(cache string) []string {
		all := []string{host, p.model, "--one-thread", "--stay", "--output-dir", string(p.outputs)}
		if cache != "" {
			all = append(all, "--cache", cache)
		}
		return all
	}
	all = append(all, p.waysOf("ExecuTorch", run)...)
	if p.path(packTool) != "" {
		all = append(all, p.packed("ExecuTorch, packed by xpwc", "ExecuTorch", run, "--for", "executorch"))
	}
	if library := p.path(dropInLibrary); library != "" && p.path(packTool) != "" {
		dropIn := func(cache string) []string {
			return append([]string{"env", "LD_PRELOAD=" + library}, run(cache+"#"+digestHere)...)
		}
		all = append(all, p.packed("ExecuTorch, drop-in on the reader", "drop-in", dropIn, "--sealed"))
	}
	return all, nil
}

// asUser begins a command of root's that respects what files' permissions say.
func asUser() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"}
}

// own are what a program that loads the model with package inference has by default: a small model does without its
// file, so that all its starts are alike.
func (p peers) own() ([]*way, error) {
	file := modelfile.File{Path: p.model}
	m, err := file.Open()
	if err != nil {
		return nil, err
	}
	small := m.WeightBytes() < inference.DefaultCacheFrom
	all := p.waysOf("xpwc", func(string) []string { return nil })
	if small {
		all = []*way{all[0], {modeResult: modeResult{Mode: "xpwc, no file: under 1 MiB"}, start: nextStart}}
	}
	for _, w := range all {
		t := task{Mode: modeWarm, Model: file, Threads: 1, Cache: w.cache, Peer: true}
		switch {
		case w.start == firstStart:
			t.Mode = modeCold
		case w.start == nextStart && small:
			t.Mode = modeMemory
		}
		command, wrong := t.command()
		w.command, err = command, errors.Join(err, wrong)
	}
	return all, errors.Join(err, m.Close())
}

// An outputDir is where hosts write the outputs of their first answer. "" if there are no such hosts.
type outputDir string

// answer is where a host writes its outputs one after the other, if it does not write them as .npy files.
func (d outputDir) answer() string { return filepath.Join(string(d), "answer.f32") }

func (d outputDir) clear() error {
	if d == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(string(d)), os.Mkdir(string(d), 0o777))
}

func (d outputDir) remove() error {
	if d == "" {
		return nil
	}
	return os.RemoveAll(string(d))
}

// sum is the SHA-256 of all outputs, in their order.
func (d outputDir) sum() (string, error) {
	content, err := os.ReadFile(d.answer())
	if !errors.Is(err, fs.ErrNotExist) {
		return sumOf(content), err
	}
	var all [][]byte
	for i := 0; ; i++ { // what examples/executorch writes
		content, err := os.ReadFile(filepath.Join(string(d), fmt.Sprintf("forward.out%d.npy", i)))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return sumOf(all...), nil
		}
		if err != nil {
			return "", err
		}
		a, err := npy.Read(content)
		if err != nil {
			return "", err
		}
		all = append(all, a.Data)
	}
}
