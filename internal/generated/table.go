package generated

import (
	"maps"

	"xpwc/internal/flatbuf"
)

type table = flatbuf.Fields

// union is a field of two slots, whose first one is given: the kind of table, and the table.
func union(slot int, kind byte, t table, others table) table {
	out := maps.Clone(others)
	if out == nil {
		out = table{}
	}
	out[slot], out[slot+1] = kind, t
	return out
}
