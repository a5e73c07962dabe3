package executorch

import "slices"

// A Release is a version of ExecuTorch whose XNNPACK is known.
type Release struct {
	// Version of ExecuTorch, e.g. "1.5.1".
	Version string
	// XNNPACK is the build identifier of the XNNPACK inside the release's Python wheel for Linux, by architecture as
	// GOARCH has it. It is what xnnpack.BuildIdentifier returns there.
	XNNPACK map[string]string
}

// releases are in the order of their versions. Those of other identifiers are not known to pack alike.
var releases = []Release{
	{"1.5.1", map[string]string{
		"amd64": "78e8776e742aaec2e0f3c3ef26613bab845df743a5047533d6900dea608b1385",
		"arm64": "967413ad3e13d4b65765d22c11af6391acf803c3e671a78d925c64655c8ce140",
	}},
}

// Releases returns the versions of ExecuTorch whose XNNPACK is known, the oldest first.
func Releases() []Release { return slices.Clone(releases) }

// ReleasesOf returns those whose XNNPACK has a build identifier on an architecture: the versions for whose stock
// runtime this XNNPACK packs.
func ReleasesOf(arch, identifier string) []Release {
	return slices.DeleteFunc(Releases(), func(r Release) bool {
		id, ok := r.XNNPACK[arch]
		return !ok || id != identifier
	})
}
