//go:build linux && cgo

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// headerStatuses returns the statuses of the header by name, without prefix.
func headerStatuses(t *testing.T, header string) map[string]bool {
	t.Helper()
	statuses := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^  XPWC_STATUS_(\w+) = \d+,?$`).FindAllStringSubmatch(header, -1) {
		statuses[match[1]] = true
	}
	require.Greater(t, len(statuses), 20)
	return statuses
}

// listedStatuses returns the statuses that the comment of each function lists.
func listedStatuses(t *testing.T) map[string]map[string]bool {
	t.Helper()
	content, err := os.ReadFile("include/xpwc.h")
	require.NoError(t, err)
	header := string(content)
	statuses := headerStatuses(t, header)
	lists := map[string]map[string]bool{}
	function := regexp.MustCompile(`(?m)((?:^//.*\n)+)^xpwc_status (xpwc_\w+)\(`)
	for _, match := range function.FindAllStringSubmatch(header, -1) {
		comment := strings.ReplaceAll(match[1], "\n// ", " ")
		_, list, _ := strings.Cut(comment, "Statuses: ")
		listed := map[string]bool{}
		for _, name := range regexp.MustCompile(`\b[A-Z][A-Z_]+\b`).FindAllString(list, -1) {
			if !strings.HasPrefix(name, "XPWC_OPEN_") {
				require.True(t, statuses[name], "%s lists %s, which is no status", match[2], name)
				listed[name] = true
			}
		}
		for _, reference := range regexp.MustCompile(`(?:of|as) (xpwc_\w+)`).FindAllStringSubmatch(list, -1) {
			require.Contains(t, header, "xpwc_status "+reference[1]+"(")
			listed["as "+reference[1]] = true
		}
		lists[match[2]] = listed
	}
	for _, listed := range lists {
		for _, name := range slices.Collect(maps.Keys(listed)) {
			if function, ok := strings.CutPrefix(name, "as "); ok {
				delete(listed, name)
				maps.Copy(listed, lists[function])
			}
		}
	}
	return lists
}

func TestEachFunctionListsItsStatuses(t *testing.T) {
	t.Parallel()
	lists := listedStatuses(t)
	content, err := os.ReadFile("include/xpwc.h")
	require.NoError(t, err)
	function := regexp.MustCompile(`(?m)^xpwc_status (xpwc_\w+)\(`)
	for _, match := range function.FindAllStringSubmatch(string(content), -1) {
		require.Contains(t, lists[match[1]], "OK", "%s has no list of statuses", match[1])
		require.Contains(t, lists[match[1]], "INVALID_ARGUMENT", match[1])
	}
	covered := map[string]bool{"INTERNAL": true, "FORKED": true}
	for _, listed := range lists {
		maps.Copy(covered, listed)
	}
	require.Equal(t, headerStatuses(t, string(content)), covered, "each status is one of some function")
}

// Whatever a host of these tests was given, and expected, is in the function's list.
func TestTheListsOfStatusesAreTrue(t *testing.T) {
	t.Parallel()
	lists := listedStatuses(t)
	sources, err := filepath.Glob("testdata/*.c")
	require.NoError(t, err)
	seen := map[string]bool{}
	expected := regexp.MustCompile(`FAILS\(\s*XPWC_STATUS_(\w+),\s*(xpwc_\w+)\(`)
	for _, source := range sources {
		content, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, match := range expected.FindAllStringSubmatch(string(content), -1) {
			status, function := match[1], match[2]
			seen[function] = true
			if _, host := callbackStatuses[function+" "+source]; !host {
				require.Contains(t, lists[function], status, "%s in %s", function, source)
			}
		}
	}
	for function := range lists {
		require.True(t, seen[function], "no host sees %s fail", function)
	}
}

// callbackStatuses are calls that return a status of the host's own callbacks, and where.
var callbackStatuses = map[string]bool{
	"xpwc_session_load testdata/failing_callbacks.c":     true,
	"xpwc_session_finalize testdata/failing_callbacks.c": true,
}
