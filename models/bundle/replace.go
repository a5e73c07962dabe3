package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/output"
)

// ErrFixed is matched by the error of [Replace] for a bundle in which sections cannot change their size.
var ErrFixed = errors.New("sections of this bundle cannot change their size")

// sectionAlignment is that of sections: the engine maps them by pages of up to 16 KiB.
const sectionAlignment = 16 << 10

// Replace writes the bundle at a path into an empty file, with other content for some sections, by name. What follows
// a replaced section moves by a multiple of 16 KiB. Pages of zeros become holes where the file system has them. The
// error matches [ErrFixed], [ErrUnknownSection], or is one of [Open] and of the files.
func Replace(dst *os.File, path string, contents map[string]*os.File) (err error) {
	b, err := Open(path)
	if err != nil {
		return err
	}
	src, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	r := replacing{bundle: b, src: src, dst: dst}
	if err := r.plan(contents); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := r.write(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return r.verify(path)
}

// A replacement is the new content of a section.
type replacement struct {
	Section
	content *os.File
	size    int64
	shift   int64 // by which the bytes after the section move
}

// replacing is a bundle that is written anew.
type replacing struct {
	bundle   *Bundle
	src, dst *os.File
	size     int64         // of the source
	replaced []replacement // in the order of the file
}

func (r *replacing) plan(contents map[string]*os.File) error {
	info, err := r.src.Stat()
	if err != nil {
		return err
	}
	r.size = info.Size()
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		s, err := r.bundle.Section(name)
		if err != nil {
			return err
		}
		info, err := contents[name].Stat()
		if err != nil {
			return err
		}
		growth := info.Size() - s.Size
		shift := (growth + sectionAlignment - 1) &^ (sectionAlignment - 1)
		r.replaced = append(r.replaced, replacement{s, contents[name], info.Size(), shift})
	}
	slices.SortFunc(r.replaced, func(a, b replacement) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, x := range r.replaced {
		for _, s := range r.bundle.Sections {
			if s.Name != x.Name && s.Offset < x.Offset+x.Size && x.Offset < s.Offset+s.Size {
				return fmt.Errorf("%w: %q and %q overlap", ErrFixed, x.Name, s.Name)
			}
		}
	}
	return nil
}

// moved returns where bytes of the source are in the new file, of which none are replaced.
func (r *replacing) moved(offset int64) int64 {
	moved := offset
	for _, x := range r.replaced {
		if x.Offset+x.Size <= offset {
			moved += x.shift
		}
	}
	return moved
}

// written returns a section of the source as the new file has it.
func (r *replacing) written(s Section) Section {
	for _, x := range r.replaced {
		if x.Name == s.Name {
			s.Size = x.size
		}
	}
	s.Offset = r.moved(s.Offset)
	return s
}

func (r *replacing) write() error {
	copied := int64(0)
	for _, x := range r.replaced {
		if err := r.copy(copied, x.Offset); err != nil {
			return err
		}
		copied = x.Offset + x.Size
		if err := output.CopySparse(r.dst, r.moved(x.Offset), io.NewSectionReader(x.content, 0, x.size)); err != nil {
			return err
		}
	}
	if err := r.copy(copied, r.size); err != nil {
		return err
	}
	// The space that a section may leave before the next one.
	if err := r.dst.Truncate(r.end()); err != nil {
		return err
	}
	if r.bundle.Format == Task {
		return r.patchTask()
	}
	return r.patchLiteRTLM()
}

// end returns the size of the new file. Nothing needs to follow the last section.
func (r *replacing) end() int64 {
	last := r.replaced[len(r.replaced)-1]
	if last.Offset+last.Size == r.size {
		return r.moved(last.Offset) + last.size
	}
	return r.moved(r.size)
}

// copy copies a range of the source.
func (r *replacing) copy(begin, end int64) error {
	return output.CopySparse(r.dst, r.moved(begin), io.NewSectionReader(r.src, begin, end-begin))
}

// patch writes a little-endian number of so many bytes.
func (r *replacing) patch(offset int64, size int, n uint64) error {
	if size < 8 && n >= 1<<(8*size)-1 {
		return fmt.Errorf("%w: %d does not fit into %d bytes", ErrFixed, n, size)
	}
	b := little.AppendUint64(nil, n)
	_, err := r.dst.WriteAt(b[:size], offset)
	return err
}

// patchLiteRTLM writes the places of sections into the header.
func (r *replacing) patchLiteRTLM() error {
	header := make([]byte, headerStart)
	if _, err := r.src.ReadAt(header, 0); err != nil {
		return err
	}
	header = make([]byte, little.Uint64(header[24:])-headerStart) // which Open has checked
	if _, err := r.src.ReadAt(header, headerStart); err != nil {
		return err
	}
	return fault.Try(func() {
		objects := flatbuf.Root(header, "", ErrMalformed).Table(rootSections).Tables(sectionObjects)
		for i, object := range objects.All() {
			begin, ok1 := object.Place(objectBegin)
			end, ok2 := object.Place(objectEnd)
			if !ok1 || !ok2 {
				fault.Because(ErrFixed, "section %d has no place", i)
			}
			s := r.written(r.bundle.Sections[i])
			fault.Check(r.patch(headerStart+begin, 8, uint64(s.Offset)))
			fault.Check(r.patch(headerStart+end, 8, uint64(s.Offset+s.Size)))
		}
	})
}

// verify reads the new bundle: all sections are there, with their sizes.
func (r *replacing) verify(path string) error {
	info, err := r.dst.Stat()
	if err != nil {
		return err
	}
	b, err := Read(r.dst, info.Size())
	if err != nil {
		return fmt.Errorf("%s: the new bundle: %w", path, err)
	}
	want := slices.Clone(r.bundle.Sections)
	for i, s := range want {
		want[i] = r.written(s)
	}
	match := func(a, b Section) bool {
		return a.Name == b.Name && a.Type == b.Type && a.Offset == b.Offset && a.Size == b.Size
	}
	if !slices.EqualFunc(want, b.Sections, match) {
		return fmt.Errorf("%s: %w: the parts of its table of contents share bytes", path, ErrFixed)
	}
	return nil
}

// patchTask writes the places, sizes and checksums of members into a zip.
func (r *replacing) patchTask() error {
	e, err := readEnd(r.src, r.size)
	if err != nil {
		return err
	}
	if e.locator != nil {
		return fmt.Errorf("%w: its zip has numbers of 64 bits", ErrFixed)
	}
	directory, members, err := e.readDirectory(r.src, r.size)
	if err != nil {
		return err
	}
	offset := int64(little.Uint32(e.record[16:]))
	if err := r.patch(r.moved(e.offset)+16, 4, uint64(r.moved(offset))); err != nil {
		return err
	}
	for position := int64(0); members > 0; members-- {
		entry := directory[position:]
		if err := r.patchMember(entry, r.moved(offset)+position); err != nil {
			return err
		}
		position += memberSize
		for i := range 3 {
			position += int64(little.Uint16(entry[28+2*i:]))
		}
	}
	return nil
}

// patchMember writes the place of a member into its entry in the directory, which is at an offset of the new file. Of a
// replaced member it writes size and checksum, there and before the member.
func (r *replacing) patchMember(entry []byte, position int64) error {
	local := int64(little.Uint32(entry[42:]))
	if local == math.MaxUint32 {
		return fmt.Errorf("%w: its zip has numbers of 64 bits", ErrFixed)
	}
	if err := r.patch(position+42, 4, uint64(r.moved(local))); err != nil {
		return err
	}
	head := make([]byte, localSize)
	if _, err := r.src.ReadAt(head, local); err != nil {
		return err
	}
	data := local + localSize + int64(little.Uint16(head[26:])) + int64(little.Uint16(head[28:]))
	i := slices.IndexFunc(r.replaced, func(x replacement) bool { return x.Offset == data })
	if i < 0 {
		return nil
	}
	x := r.replaced[i]
	const described = 1 << 3 // sizes follow the member
	if little.Uint16(head[6:])&described != 0 || little.Uint32(head[18:]) == math.MaxUint32 {
		return fmt.Errorf("%w: the zip has the size of %q elsewhere", ErrFixed, x.Name)
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(x.content, 0, x.size)); err != nil {
		return err
	}
	for _, place := range []int64{r.moved(local) + 14, position + 16} { // checksum, and the two sizes
		b := little.AppendUint32(nil, sum.Sum32())
		if _, err := r.dst.WriteAt(b, place); err != nil {
			return err
		}
		for n := range int64(2) {
			if err := r.patch(place+4+4*n, 4, uint64(x.size)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mark writes output's mark of skeletons to a bundle's end: of a zip as its comment, since readers look for the
// directory at the end.
func Mark(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := Read(f, info.Size())
	if err != nil {
		return err
	}
	if b.Format == Task {
		e, err := readEnd(f, info.Size())
		if err != nil {
			return err
		}
		comment := len(e.record) - endSize + len(output.SkeletonMark)
		if comment > math.MaxUint16 {
			return fmt.Errorf("%w: the zip's comment is too long", ErrFixed)
		}
		if _, err := f.WriteAt(little.AppendUint16(nil, uint16(comment)), e.offset+endSize-2); err != nil {
			return err
		}
	}
	return output.MarkSkeleton(f)
}
