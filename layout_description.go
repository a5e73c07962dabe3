package xpwc

import (
	"encoding/hex"
	"runtime"

	"xpwc/internal/cpu"
)

// describeLayout says for people what this process packs for: the architecture, the features of the CPU that XNNPACK
// chooses its kernels by, and the beginning of XNNPACK's build identifier. Two descriptions may belong to one layout,
// where those features do not change what is packed.
func describeLayout() string {
	description := runtime.GOARCH
	if features := cpu.Features(); features != "" {
		description += " " + features
	}
	if id := buildIdentifier(); len(id) > 0 {
		description += ", XNNPACK " + hex.EncodeToString(id[:min(len(id), 4)])
	}
	return description
}
