package ask

import (
	"slices"

	"xpwc/internal/format"
	"xpwc/packing"
)

func init() { format.SeenHere = Evidence }

// Layouts returns the layouts of records, with what is known of each. said are those that the file says so far.
func Layouts(said []format.Layout, records []format.Record) (layouts []format.Layout) {
	families := format.Families{}
	for i := range records {
		is := records[i].Layout
		if families[is] == nil {
			layouts = append(layouts, format.Layout{Fingerprint: is})
		}
		families.Add(is, records[i].Family)
	}
	here, _ := Layout() // if it is not known, nothing was packed for it
	known := append(slices.Clone(said), here)
	for i := range layouts {
		l := &layouts[i]
		same := func(k format.Layout) bool { return k.Fingerprint == l.Fingerprint }
		if at := slices.IndexFunc(known, same); at >= 0 {
			*l = known[at]
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
		if sum, known := Sum(f); known {
			seen.Families = append(seen.Families, format.SeenFamily{Family: f, Sum: sum})
		}
	}
	return seen.And(all).Encode()
}
