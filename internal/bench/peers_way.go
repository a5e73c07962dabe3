package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"xpwc/inference"
	"xpwc/internal/bench/chain"
	"xpwc/internal/modelfile"
	"xpwc/models"
)

// start says what a process finds.
type start string

const (
	withoutCache start = "without cache"
	firstStart   start = "first start" // no cache file, which the process makes
	nextStart    start = "next start"  // the cache file of an earlier process
)

// way is one in which a peer runs a model.
type way struct {
	name    string
	start   start
	command func(model, cache string) []string
	cache   string                                            // its file, "" without a cache
	pack    func(ctx context.Context, model, to string) error // makes the cache file; nil if a first start does

	runs    []*run
	many    *many
	outputs []float32 // of the first run
}

// waysOf are those of a peer whose hosts are started with the command.
func waysOf(peer string, f peerFiles, command func(model, cache string) []string) []*way {
	var all []*way
	for _, s := range []start{withoutCache, firstStart, nextStart} {
		w := &way{name: peer + ", " + string(s), start: s, command: command}
		if s != withoutCache {
			w.cache = f.base + "." + peer + "." + string(s[:5])
		}
		all = append(all, w)
	}
	return all
}

// modelWays are those of a .tflite model.
func modelWays(f peerFiles, model string, p Programs) ([]*way, error) {
	all, err := ourWays(f, model)
	if p.LiteRT == "" {
		return all, err
	}
	command := func(model, cache string) []string { return []string{p.LiteRT, model, cache, f.answer()} }
	all = append(all, waysOf("LiteRT", f, command)...)
	if p.XPWC != "" {
		all = append(all, p.packedWay("LiteRT", f, command))
	}
	return all, err
}

// packedWay is the way of a peer whose file the tool packs ahead.
func (p Programs) packedWay(peer string, f peerFiles, command func(model, cache string) []string) *way {
	return &way{
		name: peer + ", packed by xpwc", start: nextStart, cache: f.base + "." + peer + ".packed",
		command: func(model, cache string) []string { return append(asUser(), command(model, cache)...) },
		pack: func(ctx context.Context, model, to string) error {
			_, err := p.pack(ctx, model, "--for", strings.ToLower(peer), "-o", to)
			return err
		},
	}
}

// pack has the tool pack ahead, and returns what it says.
func (p Programs) pack(ctx context.Context, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, p.XPWC, append([]string{"pack"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", cmd, err, out)
	}
	return string(out), err
}

// readerWays are those of a host in C with the reader, which can run a chain and nothing else.
func readerWays(f peerFiles, model string, p Programs) []*way {
	kind := "float32"
	if strings.HasSuffix(model, chain.InInt8) {
		kind = "int8"
	}
	digest := ""
	command := func(model, cache string) []string { return []string{p.Reader, model, kind, cache, f.answer(), digest} }
	return []*way{
		{name: "reader, without cache", start: withoutCache, command: command},
		{name: "reader, packed by xpwc", start: nextStart, command: command, pack: p.seal(&digest),
			cache: f.base + ".reader.packed"},
	}
}

// seal makes a sealed file, and says the digest of the model that it is for.
func (p Programs) seal(digest *string) func(ctx context.Context, model, to string) error {
	return func(ctx context.Context, model, to string) error {
		said, err := p.pack(ctx, model, "--sealed", "-o", to)
		if err != nil {
			return err
		}
		_, name, found := strings.Cut(said, "sealed for the model ")
		if !found {
			return fmt.Errorf("pack --sealed does not say the model's digest: %s", said)
		}
		*digest = strings.Fields(name)[0]
		return nil
	}
}

// programWays are those of a .pte program.
func programWays(f peerFiles, program string, p Programs) ([]*way, error) {
	all, err := ourWays(f, program)
	if err != nil || p.ExecuTorch == "" {
		return all, err
	}
	inputs, err := f.writeInputs(program)
	if err != nil {
		return nil, err
	}
	command := func(model, cache string) []string {
		all := []string{p.ExecuTorch, model, "--one-thread", "--stay", "--output-dir", f.outputDir()}
		for _, path := range inputs {
			all = append(all, "--input", path)
		}
		if cache != "" {
			all = append(all, "--cache", cache)
		}
		return all
	}
	all = append(all, waysOf("ExecuTorch", f, command)...)
	if p.XPWC != "" {
		all = append(all, p.packedWay("ExecuTorch", f, command))
	}
	if p.XPWC != "" && p.DropIn != "" {
		digest := ""
		all = append(all, &way{
			name: "ExecuTorch, drop-in on the reader", start: nextStart, pack: p.seal(&digest),
			cache: f.base + ".drop-in.packed",
			command: func(model, cache string) []string {
				return append([]string{"env", "LD_PRELOAD=" + p.DropIn}, command(model, cache+"#"+digest)...)
			},
		})
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

// ourWays are what a program that loads the model with package inference has by default: a small model does without
// its file, so that all its starts are alike.
func ourWays(f peerFiles, model string) ([]*way, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m, err := modelfile.File{Path: model}.Open()
	if err != nil {
		return nil, err
	}
	all := waysOf("xpwc", f, func(model, cache string) []string {
		return []string{self, HostCommand, model, cache, f.answer()}
	})
	if doesWithoutFile(m) {
		all = []*way{all[0], all[2]}
		all[1].name = "xpwc, no file: under 1 MiB"
	}
	return all, m.Close()
}

// doesWithoutFile reports whether package inference loads a model without its cache file by default.
func doesWithoutFile(m models.Model) bool {
	return m.WeightBytes() < inference.DefaultCacheFrom
}

// cacheFiles are the cache file and those that its writer put beside it.
func (w *way) cacheFiles() ([]string, error) {
	if w.cache == "" {
		return nil, nil
	}
	return filepath.Glob(w.cache + "*")
}

func (w *way) removeCache() error {
	files, err := w.cacheFiles()
	for _, path := range files {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// cacheBytes is how large its files are.
func (w *way) cacheBytes() (size float64, err error) {
	files, err := w.cacheFiles()
	for _, path := range files {
		info, statErr := os.Stat(path)
		if statErr != nil {
			return 0, statErr
		}
		size += float64(info.Size())
	}
	return size, err
}
