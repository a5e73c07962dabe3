//go:build linux && cgo

package main

import (
	"fmt"
	"testing"
)

func TestAHostWithoutDescriptorsIsToldSo(t *testing.T) {
	t.Parallel()
	for _, l := range linkages {
		p := program{source: "descriptors.c", compiler: compilersFor("descriptors.c")[0], linkage: l}
		for i, call := range []string{"open", "begin", "load", "pack", "finalize", "save", "close"} {
			for free := range 4 {
				t.Run(fmt.Sprintf("%s %s, %d left", l, call, free), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					p.run(t, nil, dir, fmt.Sprint(i), fmt.Sprint(free))
					p.run(t, nil, dir, fmt.Sprint(i), fmt.Sprint(free)) // and with a cache that is there
				})
			}
		}
	}
}
