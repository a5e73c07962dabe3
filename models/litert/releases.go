package litert

import (
	"fmt"
	"slices"

	"xpwc/internal/digest"
)

// A Release is a version of LiteRT whose cache file can be written ahead of time.
type Release struct {
	// Version of LiteRT (ai-edge-litert on PyPI), e.g. "2.3.0".
	Version string
	// Packer is the package on PyPI whose library writes the same file, byte for byte, and its version.
	Packer string
	// Libraries are the SHA-256 of that library, by architecture as GOARCH has it.
	Libraries map[string]string
	// Platforms are the tags of the package's wheels, by architecture.
	Platforms map[string]string
}

// releases are in the order of their versions. A test packs with each of them, and compares.
var releases = []Release{
	{"2.3.0", "litert-lm-api 0.18.1", map[string]string{
		"amd64": "b837c18cc98920ea0f979c454795dcabb6c1f132b9b4a4a309243e67d62e94b9",
		"arm64": "9a2ad189678a4c2148eb498ac4785272cb37f96dc07a3a6019553963b363c00c",
	}, map[string]string{"amd64": "manylinux_2_27_x86_64", "arm64": "manylinux_2_27_aarch64"}},
}

// Releases returns the versions of LiteRT that are known, the oldest first.
func Releases() []Release { return slices.Clone(releases) }

// ReleaseOf returns the version of LiteRT for which a library packs on an architecture, by its SHA-256 in hexadecimal
// digits. It reports false for an unknown library.
func ReleaseOf(arch, sha256 string) (Release, bool) {
	for _, r := range releases {
		if sum, ok := r.Libraries[arch]; ok && sum == sha256 {
			return r, true
		}
	}
	return Release{}, false
}

// Newest returns the last known version of LiteRT that is packed for on an architecture. It reports false if there is
// none.
func Newest(arch string) (Release, bool) {
	for _, r := range slices.Backward(releases) {
		if _, ok := r.Libraries[arch]; ok {
			return r, true
		}
	}
	return Release{}, false
}

// A Target is what a file is for, besides its model. The file does not record it.
type Target struct {
	Version      string // of LiteRT
	Architecture string // as GOARCH has it
	CPU          string // its level, or what it has besides, as "avx512vnnigfni avx512bf16"
}

// Layout distinguishes a target from any other.
func (t Target) Layout() digest.Digest {
	return digest.OfStrings("litert", t.Version, t.Architecture, t.CPU)
}

// String is for people. The architecture comes first, and ends with a space.
func (t Target) String() string {
	return fmt.Sprintf("%s %s, LiteRT %s", t.Architecture, t.CPU, t.Version)
}
