package ask

import (
	"slices"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

func init() { format.SeenHere = Evidence }

// Layouts returns the layouts of records, each with its description and evidence. stored are the layouts in the file so
// far.
func Layouts(stored []format.Layout, records []format.Record) (layouts []format.Layout) {
	families := format.Families{}
	for i := range records {
		layout := records[i].Layout
		if families[layout] == nil {
			layouts = append(layouts, format.Layout{Fingerprint: layout})
		}
		families.Add(layout, records[i].Family)
	}
	local, _ := Layout() // if it is not known, nothing was packed for it
	candidates := append(slices.Clone(stored), local)
	for i := range layouts {
		l := &layouts[i]
		match := func(k format.Layout) bool { return k.Fingerprint == l.Fingerprint }
		if j := slices.IndexFunc(candidates, match); j >= 0 {
			*l = candidates[j]
		}
		l.Evidence = Evidence(l.Fingerprint, families.InLayout(l.Fingerprint), l.Evidence)
	}
	return layouts
}

// Evidence returns the evidence to store for a layout, so that the next process on an equal machine need not ask
// XNNPACK about all families. families are the families of the file's entries of this layout, and stored is the
// evidence in the file so far, from any machine. The result lists this machine if and only if Layout returns this
// layout. Evidence returns stored if the layout or the machine is not known here.
func Evidence(layout format.Digest, families []packing.Family, stored string) string {
	local, err := Layout()
	if err != nil || Machine() == (format.Digest{}) {
		return stored
	}
	evidence := format.DecodeEvidence(stored)
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
