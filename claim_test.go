package xpwc

import (
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack/packing"
)

// loadAs returns the address of a kernel of a host that knows all of its packing.
func loadAs(t testing.TB, s *Session, name, how string, options ...LoadOption) uintptr {
	t.Helper()
	return load(t, s, name, append(options, PackedAs(packing.Opaque([]byte(how))))...)
}

func TestASessionThatWillNotPackHoldsUpNoOther(t *testing.T) {
	content := contentOf("w", 100)
	for name, end := range map[string]func(t *testing.T, s *Session){
		"closed":    func(t *testing.T, s *Session) { require.NoError(t, s.Close()) },
		"finalized": func(t *testing.T, s *Session) { require.NoError(t, s.Finalize()) },
		"it looks another weight up": func(t *testing.T, s *Session) {
			lookUp(s, 7, load(t, s, "other"), 0)
		},
		"there is no memory": func(t *testing.T, s *Session) { require.Nil(t, reserve(s, 1<<62)) },
		"it packs another weight": func(t *testing.T, s *Session) {
			space := reserve(s, 100)
			insert(s, 7, load(t, s, "other", Eager()), 0, addressTo(space), 100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "there is no memory" && runtime.GOOS != "linux" {
				t.Skip("space is reserved by writing zeros there, which fills the disk first")
			}
			c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), &Options{WriterWait: time.Minute})
			first := newSession(t, c, map[string][]byte{"w": content, "other": contentOf("other", 90)})
			require.Equal(t, missing, lookUp(first, 7, loadAs(t, first, "w", "convolution"), 0))
			second := newSession(t, c, map[string][]byte{"w": content})
			kernel := loadAs(t, second, "w", "convolution")
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, hit := packWeight(t, second, 7, kernel, 0, packedFrom(content))
				require.False(t, hit)
				require.Equal(t, packedFrom(content), got)
			}()
			for c.Stats().Waits == 0 {
				select {
				case <-done:
					t.Fatal("a session packed what another one was packing")
				default:
					runtime.Gosched()
				}
			}
			end(t, first)
			<-done
			finish(t, second)
			require.NoError(t, first.Close())
			require.NoError(t, c.Close())
			require.Zero(t, c.Stats().WaitTimeouts)
		})
	}
}

// A host may create two runtimes in turns on one thread.
func TestAWaitForAnotherSessionEndsAfterWriterWait(t *testing.T) {
	for wait, timeouts := range map[time.Duration]int64{5 * time.Second: 1, -1: 0} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, content := listener{least: slog.LevelWarn}, contentOf("w", 100)
				c := mustOpen(t, "", &Options{WriterWait: wait, Logger: slog.New(&l)})
				first := newSession(t, c, map[string][]byte{"w": content, "v": content})
				second := newSession(t, c, map[string][]byte{"w": content, "v": content})
				for _, name := range []string{"w", "v"} {
					for _, s := range []*Session{first, second} { // and neither packs
						require.Equal(t, missing, lookUp(s, 7, loadAs(t, s, name, "convolution"), 0))
					}
				}
				require.Equal(t, timeouts, c.Stats().Waits, "a session that waited in vain waits for no other")
				require.Equal(t, timeouts, c.Stats().WaitTimeouts)
				require.Len(t, l.heard(c), int(timeouts))
				_, hit := packWeight(t, second, 7, loadAs(t, second, "w", "convolution"), 0, packedFrom(content))
				require.False(t, hit)
				_, hit = packWeight(t, first, 7, loadAs(t, first, "w", "convolution"), 0, packedFrom(content))
				require.True(t, hit)
				finish(t, first)
				finish(t, second)
				require.NoError(t, c.Close())
			})
		})
	}
}

// What one session packs answers another only if that would pack the same.
func TestASessionSharesWithAnotherInParallelWhatIsEqual(t *testing.T) {
	first, second := contentOf("first", 100), contentOf("second", 100)
	for _, path := range []string{"", filepath.Join(t.TempDir(), "cache")} {
		c := mustOpen(t, path, nil)
		for _, x := range []struct {
			content []byte
			packing string
			options []LoadOption
			hit     bool
		}{
			{first, "fully connected", nil, false},
			{first, "fully connected", nil, true},
			{second, "fully connected", nil, false},
			{second, "fully connected", nil, true},
			{first, "convolution", nil, false},
			{first, "fully connected", []LoadOption{Compare()}, false},
		} {
			s := newSession(t, c, map[string][]byte{"w": x.content})
			got, hit := packWeight(t, s, 7, loadAs(t, s, "w", x.packing, x.options...), 0, packedFrom(x.content))
			require.Equal(t, x.hit, hit, x)
			require.Equal(t, packedFrom(x.content), got)
			defer finish(t, s)
		}
		require.EqualValues(t, 3, c.Stats().Packed.Entries)
		require.EqualValues(t, 1, c.Stats().Reused.Entries, "of Compare")
		require.Zero(t, c.Stats().Waits)
	}
}
