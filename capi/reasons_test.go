//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
)

// The numbers and names in C are the same as in package xpwc.
func TestTheHeaderHasEveryReason(t *testing.T) {
	header, err := os.ReadFile("include/xpwc.h")
	require.NoError(t, err)
	source, err := os.ReadFile("api.c")
	require.NoError(t, err)
	reasons := xpwc.Reasons()
	for i, reason := range reasons {
		name := "XPWC_REASON_" + strings.ToUpper(strings.ReplaceAll(string(reason), "-", "_"))
		require.Contains(t, string(header), fmt.Sprintf("\n  %s = %d", name, i))
		require.Contains(t, string(source), fmt.Sprintf("[%s] = %q,", name, reason))
	}
	require.Len(t, regexp.MustCompile(`(?m)^  XPWC_REASON_`).FindAll(header, -1), len(reasons))
	require.Less(t, len(reasons), 64, "XPWC_REASONS")
}
