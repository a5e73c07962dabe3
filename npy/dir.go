package npy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
)

const (
	extension = ".npy"
	// alignment is what every version of the format aligns an array's bytes to.
	alignment = 16
)

// Dir is a directory of .npy files, or a single one, each mapped read-only and checked. It is an [xpwc.DataMap]. Its
// methods may be called from many goroutines.
type Dir struct {
	path   string  // of what was opened
	root   string  // the directory of the files
	arrays []array // by name
	byName map[string]int
}

// array is one file.
type array struct {
	header
	name string
	file *mapped.File
}

// Array is what a file has.
type Array struct {
	// Name is the file's path in the directory, with slashes and without .npy. That of a single file is its own name.
	Name  string
	Dtype Dtype
	// Shape is empty for a scalar. Elements lie row by row.
	Shape []int
	// Data lies in the file's mapping: it can be read until Close, and must not be written to.
	Data []byte
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
	d := &Dir{path: absolute, root: absolute, byName: map[string]int{}}
	if !info.IsDir() {
		if !strings.HasSuffix(absolute, extension) {
			return nil, fmt.Errorf("%s is not a directory, nor a %s file", absolute, extension)
		}
		d.root = filepath.Dir(absolute)
		return d, d.add(strings.TrimSuffix(filepath.Base(absolute), extension))
	}
	names, err := list(absolute)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := d.add(name); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// list returns the sorted names of the arrays in a directory.
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
	slices.Sort(names)
	return names, err
}

func (d *Dir) add(name string) error {
	file := filepath.Join(d.root, filepath.FromSlash(name)+extension)
	m, err := mapped.Open(file)
	if err != nil {
		return err
	}
	h, err := parse(m.Data())
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", file, err), m.Close())
	}
	d.byName[name] = len(d.arrays)
	d.arrays = append(d.arrays, array{header: *h, name: name, file: m})
	return nil
}

// Path returns the absolute path of what was opened.
func (d *Dir) Path() string { return d.path }

// Arrays returns all arrays, sorted by name. After Close they have no Data.
func (d *Dir) Arrays() []Array {
	out := make([]Array, len(d.arrays))
	for i := range d.arrays {
		out[i] = d.arrays[i].array()
	}
	return out
}

// Lookup returns the array of that name, and whether there is one.
func (d *Dir) Lookup(name string) (Array, bool) {
	i, ok := d.byName[name]
	if !ok {
		return Array{}, false
	}
	return d.arrays[i].array(), true
}

func (a *array) array() Array {
	return Array{Name: a.name, Dtype: a.dtype, Shape: slices.Clone(a.shape), Data: a.place().In(a.file.Data())}
}

func (a *array) place() tensorfile.Place {
	return tensorfile.Place{Offset: a.data, Size: a.size, Alignment: alignment}
}

// Tensor implements [xpwc.DataMap]. The content lies in the file's mapping. It is copied, when it is asked for, only
// if its address is no multiple of 16, as the format says it should be, or fewer than 128 bytes of the mapping follow
// its end, where C code may read. The error matches [xpwc.ErrUnknownTensor] or [xpwc.ErrClosed].
func (d *Dir) Tensor(name string) (xpwc.Tensor, error) {
	i, ok := d.byName[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", d.path, name, xpwc.ErrUnknownTensor)
	}
	return tensorfile.Tensor(d.arrays[i].file, d.arrays[i].place())
}

// Close unmaps the files. Sessions, and runtimes that read arrays at inference, must be gone before; what asks for
// the files' bytes afterwards is an error that matches [xpwc.ErrClosed]. Closing twice is harmless.
func (d *Dir) Close() error {
	var errs []error
	for i := range d.arrays {
		errs = append(errs, d.arrays[i].file.Close())
	}
	return errors.Join(errs...)
}
