package crash

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A commit that learns of a failed write before its own flush ends the file like a failed flush. With Options.Strict it
// once cut off the space that sessions compute from: reading it ended the process with SIGBUS.
func TestACommitThatIsToldOfAFailedWriteEndsTheFile(t *testing.T) {
	for name, o := range map[string]*xpwc.Options{"default": nil, "strict": {Strict: true}} {
		t.Run(name, func(t *testing.T) {
			defer harness.RecoverFault(t)()
			path := harness.Path(t)
			c, hooks := harness.OpenHooked(t, path, o)
			committed := harness.PackTensors(t, c, harness.Tensors(1, 3000))
			require.NoError(t, c.Save())

			tensors := map[string][]byte{"new": harness.Content("new", 300_000)}
			s := harness.NewSession(t, c, tensors)
			p := harness.PackUnfinalized(t, s, tensors)
			hooks.Failed = func() error { return syscall.EIO }
			_ = s.Finalize()
			err := c.Save()
			hooks.Failed = nil
			require.ErrorIs(t, err, syscall.EIO)
			p.Check(t)
			require.ErrorIs(t, harness.User(s).Lost(), xpwc.ErrLost, "without a look at the disk")
			require.NoError(t, harness.User(committed.Session).Lost())
			require.NoError(t, c.Save(), "nothing is tried again")
			_, err = os.Stat(path + ".damaged")
			require.NoError(t, err, "others may begin a new file")
			p.MustClose(t)
			committed.MustClose(t)
			require.NoError(t, c.Close())
		})
	}
}
