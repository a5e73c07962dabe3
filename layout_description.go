package xpwc

import (
	"encoding/hex"
	"runtime"

	"xpwc/internal/cpu"
)

// BuildIdentifier returns what this program's XNNPACK identifies its build by, in hexadecimal digits. It is empty if
// that is not known: without cgo, and with an XNNPACK that does not say it.
func BuildIdentifier() string { return hex.EncodeToString(buildIdentifier()) }

// describeLayout says for people what this process packs for: the architecture, the features of the CPU that XNNPACK
// chooses its kernels by, and the beginning of XNNPACK's build identifier. Two descriptions may belong to one layout,
// where those features do not change what is packed.
func describeLayout() string {
	description := runtime.GOARCH
	if features := cpu.Features(); features != "" {
		description += " " + features
	}
	if id := BuildIdentifier(); id != "" {
		description += ", XNNPACK " + id[:min(len(id), 8)]
	}
	return description
}
