package xpwc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// executorchFileOf is what ExecuTorch would have written of the tensors, as packedFrom packs them.
func executorchFileOf(tensors map[string][]byte) []byte {
	file := make([]byte, 4096)
	var entries []format.TrailerEntry
	for name, content := range tensors {
		p := packedFrom(content)
		entries = append(entries, format.TrailerEntry{
			Name: name, Offset: uint64(len(file)), Size: uint64(len(p)), Seed: 42,
		})
		file = append(file, p...)
		file = append(file, make([]byte, -len(file)&4095)...)
	}
	return append(file, format.EncodeTrailer(entries, uint64(len(file)))...)
}

// noFault turns a signal of a missing page into a failure of the test.
func noFault(t *testing.T) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			t.Errorf("SIGBUS: %v", r)
		}
	}
}

// replacedDisk calls a function before it looks at the path.
type replacedDisk struct {
	store.File
	replaced func() error
}

func (d replacedDisk) Replaced() (bool, error) {
	if err := d.replaced(); err != nil {
		return false, err
	}
	return d.File.Replaced()
}

// Sessions that pack while a commit is written keep their memory when the file turns out to be gone.
func TestAFileMovedAwayDuringACommitKeepsItsBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, &Options{WriterWait: -1})
	slow := newSession(t, c, map[string][]byte{"slow": contentOf("slow", 100_000), "s2": contentOf("s2", 300_000)})
	var space []byte
	var kernel uintptr
	n := 0
	setFiles(c, wrappedFiles{osdisk.Files{}, func(d store.File, err error) (store.File, error) {
		return flushingDisk{d, func() error {
			n++
			if n == 2 { // header; payloads
				kernel = load(t, slow, "slow")
				require.Equal(t, notFound, slow.lookUp(lookUpKey{1, kernel, 0, 0}))
				space = slow.reserve(100_000)
				require.NoError(t, os.Rename(path, path+".moved"))
			}
			return nil
		}}, err
	}})
	open(t, c, map[string][]byte{"quick": contentOf("q", 100)}).close(t)
	_ = c.waitForCommit()
	defer noFault(t)()
	for i := range space {
		space[i] = 1 // XNNPACK packs
	}
}

// The slot may be in force although its flush failed.
func TestACommitThatMayHaveSucceededIsNotCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, someTensors(2, 1000)).close(t)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	n := 0
	setFiles(c, wrappedForWriting{wrappedFiles{osdisk.Files{}, func(d store.File, err error) (store.File, error) {
		return flushingDisk{d, func() error {
			if n++; n >= 3 { // settle; index, SLOT, and all later ones
				return syscall.EIO
			}
			return nil
		}}, err
	}}})
	open(t, c, someTensors(4, 1000)).close(t)
	require.ErrorIs(t, c.Close(), syscall.EIO)
	c, err := Open(path, &Options{Strict: true})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestExecuTorchsFileReplacedWhilePackingIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 1000)}
	require.NoError(t, os.WriteFile(path, executorchFileOf(m), 0o600))
	c := mustOpen(t, path, nil)
	s := newSession(t, c, m)
	packWeight(t, s, 42, load(t, s, "w"), 0, packedFrom(m["w"]))
	require.NoError(t, os.WriteFile(path+".new", executorchFileOf(m), 0o600))
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	finish(t, s)
	_ = c.waitForCommit()
	for i := range 3 {
		open(t, c, map[string][]byte{"v": contentOf("v", 1000)}).close(t)
		err := c.Save()
		if i == 2 {
			require.NoError(t, err)
		}
	}
}

func TestAFailureToLookAtThePathIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	slow := newSession(t, c, map[string][]byte{"slow": contentOf("slow", 1000)})
	n, f := 0, 0
	setFiles(c, wrappedFiles{osdisk.Files{}, func(d store.File, err error) (store.File, error) {
		d = replacedDisk{d, func() error {
			if n++; n == 2 { // begin; after the commit
				return syscall.EIO
			}
			return nil
		}}
		return flushingDisk{d, func() error {
			if f++; f == 2 {
				p := bytes.Repeat([]byte{1}, 1000)
				packWeight(t, slow, 1, load(t, slow, "slow"), 0, p)
			}
			return nil
		}}, err
	}})
	o := open(t, c, map[string][]byte{"a": contentOf("a", 1000)})
	_ = c.waitForCommit()
	_ = c.Save()
	err := slow.Finalize()
	require.NoError(t, err)
	_ = c.Save()
	o2 := open(t, c, map[string][]byte{"b": contentOf("b", 3000)})
	_ = c.Save()
	defer noFault(t)()
	o.close(t)
	o2.close(t)
	require.NoError(t, slow.Close())
	require.NoError(t, c.Close())
	c, err = Open(path, &Options{Strict: true, Verify: VerifyOnUse})
	require.NoError(t, err)
	require.LessOrEqual(t, c.Stats().Entries, 3)
	require.NoError(t, c.Close())
}

func TestAReadOnlyCacheSeesWhatOthersRepaired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := someTensors(1, 1000)
	c := mustOpen(t, path, nil)
	open(t, c, m).close(t)
	require.NoError(t, c.Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 4500))
	c = mustOpen(t, path, &Options{ReadOnly: true})
	open(t, c, m).close(t)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, good, 0o600))
	open(t, c, m).close(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}

func TestExecuTorchsFileCutOffWhileOpenIsSurvived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 100_000)}
	require.NoError(t, os.WriteFile(path, executorchFileOf(m), 0o600))
	c := mustOpen(t, path, nil)
	require.NoError(t, os.Truncate(path, 0))
	defer noFault(t)()
	s := newSession(t, c, m)
	packWeight(t, s, 42, load(t, s, "w"), 0, packedFrom(m["w"]))
	err := s.Finalize()
	require.NoError(t, err)
}

func TestFillIsCalledOnceEvenIfItFails(t *testing.T) {
	c := mustOpen(t, "", nil)
	var calls atomic.Int64
	tensor := Tensor{Size: 100, Fill: func(b []byte) error { calls.Add(1); return errors.New("cannot read") }}
	s, err := c.NewSession(tensorMap{"w": tensor})
	require.NoError(t, err)
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, load(t, s, "w"), 0, 0}))
	require.Nil(t, s.reserve(100))
	_ = s.Finalize()
	require.EqualValues(t, 1, calls.Load())
}

func TestACopyAtAnAddressUsedBeforeIsPersisted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, &Options{WriterWait: -1})
	m := map[string][]byte{"v": contentOf("v", 100), "w": contentOf("w", 100)}
	s := newSession(t, c, m)
	v, w := load(t, s, "v", Eager()), load(t, s, "w", Eager())
	r, err := newAnonymousRegion(100)
	require.NoError(t, err)
	k := addressOf(r.Data())
	s.alias(k, v)
	packWeight(t, s, 1, k, 0, bytes.Repeat([]byte{1}, 100))
	s.alias(k, w)
	packWeight(t, s, 1, k, 0, bytes.Repeat([]byte{2}, 100))
	finish(t, s)
	require.NoError(t, c.Save())
	require.Equal(t, 2, c.Stats().Entries)
}

func TestASizeCapThatNothingFitsInHarmsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, &Options{MaxBytes: 1000})
	o := open(t, c, someTensors(2, 3000))
	require.NoError(t, c.Save())
	o.check(t)
	o.close(t)
	open(t, c, someTensors(2, 3000)).close(t)
	require.NoError(t, c.Close())
}

// A file that took the place of another holds what was packed into it and nothing else: where the old one had a
// payload, it has another one.
func TestANewFileListsNothingOfTheOneThatIsGone(t *testing.T) {
	old := map[string][]byte{"old": contentOf("old", 5000)}
	other := map[string][]byte{"other": contentOf("other", 5000)}
	ends := map[string]func(path string) error{
		"moved away": func(path string) error { return osdisk.Files{}.Rename(path, path+".moved") },
		"replaced": func(path string) error {
			c := mustOpen(t, path+".other", nil)
			open(t, c, map[string][]byte{"third": contentOf("third", 5000)}).close(t)
			return errors.Join(c.Close(), osdisk.Files{}.Rename(path+".other", path))
		},
	}
	// Windows refuses it, or (before version 10, and Wine) keeps the name as long as the file is open.
	if runtime.GOOS != "windows" {
		ends["removed"] = os.Remove
		ends["truncated"] = func(path string) error { return os.Truncate(path, 5000) }
		ends["emptied"] = func(path string) error { return os.Truncate(path, 0) }
	}
	for name, end := range ends {
		for _, packedHere := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, packed here %v", name, packedHere), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "cache")
				c := mustOpen(t, path, nil)
				open(t, c, old).close(t)
				if packedHere {
					require.NoError(t, c.Save())
				} else {
					require.NoError(t, c.Close())
					c = mustOpen(t, path, nil)
				}
				require.NoError(t, end(path))
				open(t, c, other).close(t)
				require.NoError(t, c.Close())

				c = mustOpen(t, path, &Options{Strict: true})
				open(t, c, other).close(t)
				require.EqualValues(t, 1, c.Stats().Hits.Entries)
				open(t, c, old).close(t) // checks the bytes
				require.EqualValues(t, 1, c.Stats().Misses)
				require.NoError(t, c.Close())
			})
		}
	}
}

// Everything at once: sessions of changing tensors, compactions, saves, closes, and somebody who moves the file away.
func TestCachesThatAreOpenedClosedCompactedAndLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				c, err := Open(path, &Options{WriterWait: 5 * time.Millisecond, MaxBytes: 300_000})
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + random.IntN(4) {
					tensors, n := map[string][]byte{}, random.IntN(12)
					for i := range 3 {
						name := fmt.Sprint("t", n+i)
						tensors[name] = contentOf(fmt.Sprint(name, random.IntN(3)), 9000+100*(n+i))
					}
					open(t, c, tensors).close(t)
					switch random.IntN(8) {
					case 0:
						_ = c.Compact()
					case 1:
						_ = c.Save()
					case 2:
						if random.IntN(5) == 0 {
							_ = os.Rename(path, path+".gone")
						}
					}
				}
				if err := c.Close(); errors.Is(err, ErrInUse) {
					t.Error("sessions of other handles: ", err)
				}
				if err := c.Close(); err != nil {
					t.Error("closed twice: ", err)
				}
			}
		})
	}
	wg.Wait()
	c := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, c, someTensors(1, 100)).close(t)
	require.NoError(t, c.Close())
}
