package npy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
	"xpwc/models/safetensors"
)

const (
	extension = ".npy"
	// alignment is what every version of the format aligns an array's bytes to.
	alignment = 16
)

// Dir is a directory of .npy files, or a single one, each mapped read-only and checked. It is an [xpwc.DataMap]. Its
// methods may be called from many goroutines.
type Dir struct {
	path   string // of what was opened
	arrays map[string]*array
}

// array is what one file has.
type array struct {
	safetensors.Tensor // without Data
	file               *mapped.File
	place              tensorfile.Place
}

// Open maps every file of a directory, and of the directories in it, whose name ends in .npy, and checks its header
// against it; or it does so for a single file of such a name. In a directory, files and directories whose names begin
// with a dot are left out, and links to directories are not followed. Arrays' bytes are not read. The error matches
// [ErrMalformed], [ErrUnsupported] or what the operating system returned, and names the file. Files must not be changed
// in place while they are open, as for any mapping; replacing one by another is harmless. Each open file keeps
// a descriptor. The caller closes the directory when everything that uses its arrays is closed.
func Open(path string) (*Dir, error) {
	d, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open .npy files: %w", err)
	}
	return d, nil
}

func open(path string) (*Dir, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, err
	}
	root, names := absolute, []string(nil)
	switch {
	case info.IsDir():
		names, err = list(absolute)
	case strings.HasSuffix(absolute, extension):
		root, names = filepath.Dir(absolute), []string{strings.TrimSuffix(filepath.Base(absolute), extension)}
	default:
		err = fmt.Errorf("%s is not a directory, nor a %s file", absolute, extension)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{path: absolute, arrays: map[string]*array{}}
	for _, name := range names {
		if err := d.add(name, filepath.Join(root, filepath.FromSlash(name)+extension)); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// list returns the names of the arrays in a directory.
func list(dir string) ([]string, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		switch hidden := name != "." && strings.HasPrefix(path.Base(name), "."); {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(dir, filepath.FromSlash(name)), err)
		case hidden && e.IsDir():
			return fs.SkipDir
		case !hidden && !e.IsDir() && path.Ext(name) == extension:
			names = append(names, strings.TrimSuffix(name, extension))
		}
		return nil
	})
	return names, err
}

func (d *Dir) add(name, file string) error {
	m, err := mapped.Open(file)
	if err != nil {
		return err
	}
	content := m.Data()
	t, err := Read(content)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", file, err), m.Close())
	}
	size := int64(len(t.Data))
	place := tensorfile.Place{Offset: int64(len(content)) - size, Size: size, Alignment: alignment}
	t.Name, t.Data = name, nil
	d.arrays[name] = &array{t, m, place}
	return nil
}

// Path returns the absolute path of what was opened.
func (d *Dir) Path() string { return d.path }

// Tensors returns all arrays, sorted by name. That is the file's path in the directory, with slashes and without .npy;
// that of a single file is its own name. After Close they have no Data.
func (d *Dir) Tensors() []safetensors.Tensor {
	var out []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(d.arrays)) {
		out = append(out, d.arrays[name].tensor())
	}
	return out
}

// Lookup returns the array of that name, and whether there is one.
func (d *Dir) Lookup(name string) (safetensors.Tensor, bool) {
	if a := d.arrays[name]; a != nil {
		return a.tensor(), true
	}
	return safetensors.Tensor{}, false
}

func (a *array) tensor() safetensors.Tensor {
	t := a.Tensor
	t.Shape, t.Data = slices.Clone(a.Shape), a.place.In(a.file.Data())
	return t
}

// Tensor implements [xpwc.DataMap]. The content lies in the file's mapping. It is copied, when it is asked for, only
// if its address is no multiple of 16, as the format says it should be, or fewer than 128 bytes of the mapping follow
// its end, where C code may read. The error matches [xpwc.ErrUnknownTensor] or [xpwc.ErrClosed].
func (d *Dir) Tensor(name string) (xpwc.Tensor, error) {
	a := d.arrays[name]
	if a == nil {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", d.path, name, xpwc.ErrUnknownTensor)
	}
	return tensorfile.Tensor(a.file, a.place)
}

// Close unmaps the files. Sessions, and runtimes that read arrays at inference, must be gone before; what asks for
// the files' bytes afterwards is an error that matches [xpwc.ErrClosed]. Closing twice is harmless.
func (d *Dir) Close() error {
	var errs []error
	for _, a := range d.arrays {
		errs = append(errs, a.file.Close())
	}
	return errors.Join(errs...)
}
