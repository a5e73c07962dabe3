package ask

import (
	"slices"

	"xpwc/internal/format"
	"xpwc/packing"
)

func init() { format.SeenHere = Evidence }

// Evidence returns what a cache file is to say of a layout so that the next process on such a machine as this need not
// ask XNNPACK about all families. families are those of the file's entries of this layout, and said is what the file
// says so far, of any machines. This machine is listed if the layout is the one that Layout returns, and otherwise it
// is not. If XNNPACK does not say which it is, said is returned.
func Evidence(layout format.Digest, families []packing.Family, said string) string {
	here, err := Layout()
	if err != nil || Machine() == (format.Digest{}) {
		return said
	}
	all := format.DecodeEvidence(said)
	if layout != here.Fingerprint {
		all.Machines = slices.DeleteFunc(all.Machines, func(m format.Digest) bool { return m == Machine() })
		return all.Encode()
	}
	seen := format.Evidence{Machines: []format.Digest{Machine()}}
	for _, f := range families[:min(len(families), format.MostFamilies)] {
		if sum, known := About(f).Sum(); known {
			seen.Families = append(seen.Families, format.SeenFamily{Family: f, Sum: sum})
		}
	}
	return seen.And(all).Encode()
}
