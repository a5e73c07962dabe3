package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
)

// A start that may not make the cache file packs into private memory: explain and run agree on that.
func TestExplainKnowsADirectoryThatIsReadOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o755)) })
	user := asOrdinaryUser(t)
	reasons := func(args ...string) (got []xpwc.Reason) {
		command := append(append(user, tool), append(args, "--cache", filepath.Join(dir, "cache.xpwc"), "--json")...)
		out, err := exec.Command(command[0], command[1:]...).Output()
		require.NoError(t, err)
		type counts []struct{ Reason xpwc.Reason }
		var report struct {
			Reasons counts
			Cache   struct{ Reasons counts }
		}
		require.NoError(t, json.Unmarshal(out, &report))
		for _, r := range append(report.Reasons, report.Cache.Reasons...) {
			got = append(got, r.Reason)
		}
		return got
	}
	model := faceModel(t)
	require.Equal(t, []xpwc.Reason{xpwc.ReasonNoFile, xpwc.ReasonReadOnly}, reasons("run", model))
	require.Equal(t, []xpwc.Reason{xpwc.ReasonNoFile, xpwc.ReasonReadOnly}, reasons("explain", model))
	command := append(user, tool, "explain", model, "--cache", filepath.Join(dir, "cache.xpwc"))
	out, err := exec.Command(command[0], command[1:]...).Output()
	require.NoError(t, err)
	advice := strings.Join(strings.Fields(string(out)), " ")
	require.Contains(t, advice, "cannot be written to. Pack ahead of time")
	require.NotContains(t, advice, "next start finds", "this start cannot write to the file")
}
