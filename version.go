package xpwc

import (
	"runtime/debug"
	"strings"
)

// Version of this module, of the C library with its headers, and of the tool. Before 1.0 a minor version may change
// interfaces and the file's format.
const Version = "0.6.0"

// Commit returns the commit of xpwc that a program of its modules was built from, twelve digits, with a + if files were
// changed; "" if it is not known: in tests, and in programs of others' modules, whose commit is another.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != "xpwc" && !strings.HasPrefix(info.Main.Path, "xpwc/") {
		return ""
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+"
		}
	}
	if revision == "" {
		return ""
	}
	return revision[:min(len(revision), 12)] + modified
}
