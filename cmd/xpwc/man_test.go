package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManualPagesKeepListsAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	printed(t, dir, 0, "man", ".")
	for page, line := range map[string]string{
		"xpwc.1":     "\n130  if it was interrupted, by Ctrl-C, SIGTERM or SIGHUP\n",
		"xpwc-run.1": "\n\\fB--cpu\\fP=LEVEL\n",
		"xpwc-who.1": "\nprivate     pages that have no other mapping\n",
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		require.NoError(t, err)
		require.Contains(t, string(text), line)
	}
}
