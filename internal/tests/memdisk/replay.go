package memdisk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Replay calls look for the disk images that a power failure may leave at every moment of the recording: with the
// image, which look must not change, the number of steps before it, and the number of images so far. At each moment
// every combination of all or none of the unflushed writes of each kind is left, and perMoment random ones for each
// size of torn writes. It returns the number of images, or the first error of look, or the error that would have ended
// a process.
func (d *Dir) Replay(seed uint64, perMoment int, look func(image *Dir, steps, images int) error) (
	images int, err error) {
	if d.misuse != nil {
		return 0, d.misuse
	}
	r := newReplay(d)
	for steps := 0; steps <= len(d.steps); steps++ {
		last := "nothing"
		if steps > 0 {
			r.apply(d.steps[steps-1])
			last = d.steps[steps-1].call
		}
		visited := map[uint64]bool{}
		for unit := range tornUnits {
			failures := extremes(unit)
			for n := range perMoment {
				failures = append(failures, randomFailure(unit, seed<<32|uint64(steps)<<16|uint64(n)))
			}
			for _, f := range failures {
				image, choice := r.imageAfter(f)
				if visited[choice] {
					continue
				}
				visited[choice] = true
				images++
				if err := look(image, steps, images); err != nil {
					return images, fmt.Errorf("power fails after step %d of %d (%s), %v: %w",
						steps, len(d.steps), last, f, err)
				}
			}
		}
	}
	return images, nil
}

// A replay is the disk at one moment of a recording: what a power failure would certainly leave, and what it may leave.
type replay struct {
	buffers map[string][]byte
	files   map[*inode]*replayed
	synced  map[string]*inode // names
	names   []step            // changes of names since

	granularity uint64 // of mappings
}

// A replayed file.
type replayed struct {
	durable []byte // at the last flush; as long as current
	current []byte // with all that was written since, up to the highest byte ever written
	sizes   []int64
	since   [3]versions // what was written since the last flush, in units of each of the tornUnits
}

// A power failure leaves whole units of unflushed bytes: pages, sectors, or words of a sector, which the store bears
// too.
var tornUnits = [3]int64{pageUnit, sector, 64}

const pageUnit = 4096

// versions are the contents that each unit has had since the last flush.
type versions struct {
	order    []int64 // of the units' first changes
	contents map[int64][][]byte
}

func newReplay(d *Dir) *replay {
	r := &replay{
		buffers: map[string][]byte{}, files: map[*inode]*replayed{}, synced: maps.Clone(d.initial),
		granularity: d.Granularity,
	}
	for _, i := range d.inodes {
		r.files[i] = newReplayed(slices.Clone(i.initial), i.initialSize)
	}
	return r
}

func newReplayed(content []byte, size int64) *replayed {
	f := &replayed{durable: content, current: slices.Clone(content), sizes: []int64{size}}
	for g := range f.since {
		f.since[g] = versions{contents: map[int64][][]byte{}}
	}
	return f
}

// flushed makes the units of the pages that a flush includes durable.
func (f *replayed) flushed(includes func(page int64) bool) {
	for g, unit := range tornUnits {
		v := &f.since[g]
		v.order = slices.DeleteFunc(v.order, func(offset int64) bool {
			if !includes(offset &^ (pageUnit - 1)) {
				return false
			}
			copy(f.durable[offset:], f.current[offset:min(offset+unit, int64(len(f.current)))])
			delete(v.contents, offset)
			return true
		})
	}
}

// lose takes back what was written to pages since they were flushed.
func (f *replayed) lose(pages []int64) {
	for _, page := range pages {
		end := min(page+pageUnit, int64(len(f.current)))
		if page >= end {
			continue
		}
		copy(f.current[page:end], f.durable[page:])
		for g := range tornUnits {
			v := &f.since[g]
			v.order = slices.DeleteFunc(v.order, func(offset int64) bool { return offset >= page && offset < end })
			maps.DeleteFunc(v.contents, func(offset int64, _ [][]byte) bool { return offset >= page && offset < end })
		}
	}
}

func (r *replay) apply(s step) {
	switch {
	case s.names != nil:
		r.names = append(r.names, s)
	case s.syncDir:
		for _, change := range r.names {
			change.applyTo(r.synced)
		}
		r.names = nil
	case s.flush == fileFlush:
		f := r.files[s.inode]
		f.sizes = f.sizes[len(f.sizes)-1:]
		f.flushed(func(page int64) bool { return !s.pages[page] })
	case s.flush == regionSync:
		r.files[s.inode].flushed(func(page int64) bool { return s.pages[page] })
	case s.lost != nil:
		r.files[s.inode].lose(s.lost)
	default:
		r.files[s.inode].write(s)
	}
}

func (s step) applyTo(names map[string]*inode) {
	for _, change := range s.names {
		if change.inode == nil {
			delete(names, change.name)
		} else {
			names[change.name] = change.inode
		}
	}
}

func (f *replayed) write(s step) {
	size := f.sizes[len(f.sizes)-1]
	if cut := int64(len(f.current)); s.size < cut && s.size < size {
		clear(f.current[s.size:])
		f.changed(s.size, cut)
	}
	for _, p := range s.patches {
		end := p.offset + int64(len(p.bytes))
		if missing := end - int64(len(f.current)); missing > 0 {
			f.current = append(f.current, make([]byte, missing)...)
			f.durable = append(f.durable, make([]byte, missing)...)
		}
		copy(f.current[p.offset:], p.bytes)
	}
	for g, unit := range tornUnits { // a unit with several patches of one step changes once
		last := int64(-1)
		for _, p := range s.patches {
			for index := max(p.offset/unit, last+1); index*unit < p.offset+int64(len(p.bytes)); index++ {
				f.since[g].add(f.current, index*unit, unit)
				last = index
			}
		}
	}
	if s.size != size {
		f.sizes = append(f.sizes, s.size)
	}
}

func (f *replayed) changed(start, end int64) {
	for g, unit := range tornUnits {
		for offset := start / unit * unit; offset < end; offset += unit {
			f.since[g].add(f.current, offset, unit)
		}
	}
}

func (v *versions) add(content []byte, offset, unit int64) {
	if v.contents[offset] == nil {
		v.order = append(v.order, offset)
	}
	v.contents[offset] = append(v.contents[offset], slices.Clone(content[offset:min(offset+unit, int64(len(content)))]))
}

// A failure selects the unflushed changes that a power failure leaves.
type failure struct {
	unit   int // index into tornUnits
	units  Subset
	size   Subset
	names  Subset
	seed   uint64
	random *rand.Rand
}

// A Subset selects some of several things.
type Subset int

// The selections. By chance means by a random number.
const (
	LeaveNone Subset = iota
	LeaveAll
	LeaveSome      // each by chance
	LeaveOne       // one
	LeaveAllButOne // the others
	LeaveAnyAge    // each by chance, and not always as it was last
)

func (s Subset) String() string {
	return [...]string{"none", "all", "some", "one", "all but one", "some, of any age"}[s]
}

func (f failure) String() string {
	return fmt.Sprintf("torn at %d bytes; left of unflushed content: %v, sizes: %v, names: %v; seed %d",
		tornUnits[f.unit], f.units, f.size, f.names, f.seed)
}

// extremes are the failures that leave all or nothing of each kind.
func extremes(unit int) []failure {
	var fs []failure
	for _, units := range []Subset{LeaveNone, LeaveAll} {
		for _, size := range []Subset{LeaveNone, LeaveAll} {
			for _, names := range []Subset{LeaveNone, LeaveAll} {
				fs = append(fs, failure{unit: unit, units: units, size: size, names: names})
			}
		}
	}
	return fs
}

// randomFailure returns the failure of a seed.
func randomFailure(unit int, seed uint64) failure {
	random := rand.New(rand.NewPCG(seed, uint64(unit)))
	content := []Subset{LeaveNone, LeaveAll, LeaveSome, LeaveSome, LeaveSome, LeaveOne, LeaveAllButOne, LeaveAnyAge}
	few := []Subset{LeaveNone, LeaveAll, LeaveSome}
	return failure{
		unit: unit, seed: seed, random: random,
		units: content[random.IntN(len(content))], size: few[random.IntN(len(few))], names: few[random.IntN(len(few))],
	}
}

// namesAfter returns the names that the failure leaves.
func (r *replay) namesAfter(f failure) map[string]*inode {
	names := r.synced
	if len(r.names) == 0 || f.names == LeaveNone {
		return names
	}
	names = maps.Clone(names)
	upTo := len(r.names)
	gaps := false
	if f.names == LeaveSome {
		upTo = f.random.IntN(upTo + 1)
		gaps = f.random.IntN(2) == 0 // a journal keeps the order, but not every file system has one
	}
	for _, change := range r.names[:upTo] {
		if !gaps || f.random.IntN(2) == 0 {
			change.applyTo(names)
		}
	}
	return names
}

// imageAfter returns the directory that the failure leaves, to be used before the next call, and a number that differs
// if the choice did.
func (r *replay) imageAfter(f failure) (image *Dir, choice uint64) {
	image = &Dir{names: map[string]*inode{}, Granularity: r.granularity}
	names := r.namesAfter(f)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		src := r.files[names[name]]
		content, size, chosen := src.contentAfter(f, r.buffers[name])
		r.buffers[name] = content
		image.names[name] = &inode{memory: content, size: size}
		choice = mix(choice, chosen)
		choice = mix(choice, uint64(names[name].number))
		if len(src.since[f.unit].order) > 0 {
			choice = mix(choice, uint64(f.unit))
		}
	}
	return image, choice
}

func mix(sum, n uint64) uint64 {
	sum = (sum ^ (n + 1)) * 0x9e3779b97f4a7c15
	return sum ^ sum>>29
}

// contentAfter returns what the failure leaves of a file: its size, its content up to there or up to where only zeros
// follow, in buffer if that is large enough, and a number that differs if the choice did.
func (f *replayed) contentAfter(fail failure, buffer []byte) (content []byte, size int64, choice uint64) {
	pick := func(s Subset, n int) int { // of n, 0 the oldest
		switch {
		case s == LeaveNone:
			return 0
		case s == LeaveAll:
			return n - 1
		default:
			return fail.random.IntN(n)
		}
	}
	i := pick(fail.size, len(f.sizes))
	size, choice = f.sizes[i], uint64(i)

	content = append(buffer[:0], f.durable...)
	since := &f.since[fail.unit]
	special, chance := 0, 0.5
	if fail.random != nil && len(since.order) > 0 {
		special, chance = fail.random.IntN(len(since.order)), fail.random.Float64()
	}
	for i, unit := range since.order {
		versions := since.contents[unit]
		version := len(versions) // 0: as it was flushed
		switch fail.units {
		case LeaveNone:
			version = 0
		case LeaveAll:
		case LeaveSome:
			if fail.random.Float64() >= chance {
				version = 0
			}
		case LeaveOne:
			if i != special {
				version = 0
			}
		case LeaveAllButOne:
			if i == special {
				version = 0
			}
		case LeaveAnyAge:
			version = fail.random.IntN(version + 1)
		}
		if version > 0 {
			copy(content[unit:], versions[version-1])
		}
		choice = mix(choice, uint64(version))
	}
	return content[:min(size, int64(len(content)))], size, choice
}
