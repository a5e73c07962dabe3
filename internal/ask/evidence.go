package ask

import (
	"slices"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

func init() { format.SeenHere = Evidence }

// Layouts returns the layouts of records, with what is known of each. said are those that the file says so far.
func Layouts(said []format.Layout, records []format.Record) (layouts []format.Layout) {
	families := format.Families{}
	for i := range records {
		layout := records[i].Layout
		if families[layout] == nil {
			layouts = append(layouts, format.Layout{Fingerprint: layout})
		}
		families.Add(layout, records[i].Family)
	}
	local, _ := Layout() // if it is not known, nothing was packed for it
	candidates := append(slices.Clone(said), local)
	for i := range layouts {
		l := &layouts[i]
		match := func(k format.Layout) bool { return k.Fingerprint == l.Fingerprint }
		if j := slices.IndexFunc(candidates, match); j >= 0 {
			*l = candidates[j]
		}
		l.Evidence = Evidence(l.Fingerprint, families.Of(l.Fingerprint), l.Evidence)
	}
	return layouts
}

// Evidence returns what a cache file is to say of a layout so that the next process on such a machine as this need not
// ask XNNPACK about all families. families are those of the file's entries of this layout, and said is what the file
// says so far, of any machines. This machine is listed if the layout is the one that Layout returns, and otherwise it
// is not. If XNNPACK does not say which it is, said is returned.
func Evidence(layout format.Digest, families []packing.Family, said string) string {
	local, err := Layout()
	if err != nil || Machine() == (format.Digest{}) {
		return said
	}
	evidence := format.DecodeEvidence(said)
	if layout != local.Fingerprint {
		evidence.Machines = slices.DeleteFunc(evidence.Machines, func(m format.Digest) bool { return m == Machine() })
		return evidence.Encode()
	}
	seen := format.Evidence{Machines: []format.Digest{Machine()}}
	for _, f := range families[:min(len(families), format.MostFamilies)] {
		if sum, ok := Sum(f); ok {
			seen.Families = append(seen.Families, format.SeenFamily{Family: f, Sum: sum})
		}
	}
	return seen.Merge(evidence).Encode()
}
