package sharing

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack/packing"
)

// loadAs returns the address of a kernel of a host that knows all of its packing.
func loadAs(t testing.TB, s *xpwc.Session, name, mode string, options ...xpwc.LoadOption) uintptr {
	t.Helper()
	return harness.Load(t, s, name, append(options, xpwc.PackedAs(packing.Opaque([]byte(mode))))...)
}

func TestASessionWithoutPackingDoesNotBlockOthers(t *testing.T) {
	content := harness.Content("w", 100)
	for name, end := range map[string]func(t *testing.T, s *xpwc.Session){
		"closed":    func(t *testing.T, s *xpwc.Session) { require.NoError(t, s.Close()) },
		"finalized": func(t *testing.T, s *xpwc.Session) { require.NoError(t, s.Finalize()) },
		"it looks another weight up": func(t *testing.T, s *xpwc.Session) {
			harness.LookUp(s, 7, harness.Load(t, s, "other"), 0)
		},
		"there is no memory": func(t *testing.T, s *xpwc.Session) { require.Nil(t, harness.Reserve(s, 1<<62)) },
		"it packs another weight": func(t *testing.T, s *xpwc.Session) {
			space := harness.Reserve(s, 100)
			harness.Insert(s, 7, harness.Load(t, s, "other", xpwc.Eager()), 0, harness.Address(space), 100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "there is no memory" && runtime.GOOS != "linux" {
				t.Skip("space is reserved by writing zeros there, which fills the disk first")
			}
			c := harness.Open(t, harness.Path(t), &xpwc.Options{WriterWait: time.Minute})
			first := harness.NewSession(t, c, map[string][]byte{"w": content, "other": harness.Content("other", 90)})
			require.Equal(t, harness.NotFound, harness.LookUp(first, 7, loadAs(t, first, "w", "convolution"), 0))
			second := harness.NewSession(t, c, map[string][]byte{"w": content})
			kernel := loadAs(t, second, "w", "convolution")
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, hit := harness.PackWeight(t, second, 7, kernel, 0, harness.PackedFrom(content))
				require.False(t, hit)
				require.Equal(t, harness.PackedFrom(content), got)
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
			harness.Finish(t, second)
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
				l, content := harness.Listener{Level: slog.LevelWarn}, harness.Content("w", 100)
				c := harness.Open(t, "", &xpwc.Options{WriterWait: wait, Logger: slog.New(&l)})
				first := harness.NewSession(t, c, map[string][]byte{"w": content, "v": content})
				second := harness.NewSession(t, c, map[string][]byte{"w": content, "v": content})
				for _, name := range []string{"w", "v"} {
					for _, s := range []*xpwc.Session{first, second} { // and neither packs
						require.Equal(t, harness.NotFound, harness.LookUp(s, 7, loadAs(t, s, name, "convolution"), 0))
					}
				}
				require.Equal(t, timeouts, c.Stats().Waits, "a session that waited in vain waits for no other")
				require.Equal(t, timeouts, c.Stats().WaitTimeouts)
				require.Len(t, l.Events(c), int(timeouts))
				_, hit := harness.PackWeight(t, second, 7, loadAs(t, second, "w", "convolution"), 0,
					harness.PackedFrom(content))
				require.False(t, hit)
				_, hit = harness.PackWeight(t, first, 7, loadAs(t, first, "w", "convolution"), 0,
					harness.PackedFrom(content))
				require.True(t, hit)
				harness.Finish(t, first)
				harness.Finish(t, second)
				require.NoError(t, c.Close())
			})
		})
	}
}

// What one session packs answers another only if that would pack the same.
func TestParallelSessionsShareEqualEntries(t *testing.T) {
	first, second := harness.Content("first", 100), harness.Content("second", 100)
	for _, path := range []string{"", harness.Path(t)} {
		c := harness.Open(t, path, nil)
		for _, x := range []struct {
			content []byte
			packing string
			options []xpwc.LoadOption
			hit     bool
		}{
			{first, "fully connected", nil, false},
			{first, "fully connected", nil, true},
			{second, "fully connected", nil, false},
			{second, "fully connected", nil, true},
			{first, "convolution", nil, false},
			{first, "fully connected", []xpwc.LoadOption{xpwc.Compare()}, false},
		} {
			s := harness.NewSession(t, c, map[string][]byte{"w": x.content})
			got, hit := harness.PackWeight(t, s, 7, loadAs(t, s, "w", x.packing, x.options...), 0,
				harness.PackedFrom(x.content))
			require.Equal(t, x.hit, hit, x)
			require.Equal(t, harness.PackedFrom(x.content), got)
			defer harness.Finish(t, s)
		}
		require.EqualValues(t, 3, c.Stats().Packed.Entries)
		require.EqualValues(t, 1, c.Stats().Reused.Entries, "of Compare")
		require.Zero(t, c.Stats().Waits)
	}
}
