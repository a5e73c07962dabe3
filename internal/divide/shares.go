package divide

import (
	"xpwc/models"
	"xpwc/xnnpack"
)

// A Group is steps of a model that come into one share, by their positions, and the bytes of their weights.
type Group struct {
	Kernel string // the name of what all of them pack, if there is one
	Steps  []int
	Bytes  int64
}

// Shares divides groups among n shares, as [models.Model] says. cut returns what makes the subgraph of some steps.
func Shares(
	groups []*Group, n int, cut func(steps []int) func(models.Loader) (*xnnpack.Subgraph, error),
) []models.Share {
	sizes := make([]int64, len(groups))
	for i, g := range groups {
		sizes[i] = g.Bytes
	}
	var shares []models.Share
	for _, part := range evenly(sizes, n) {
		var steps []int
		var size int64
		for _, i := range part {
			steps = append(steps, groups[i].Steps...)
			size += groups[i].Bytes
		}
		shares = append(shares, models.Share{Bytes: size, Subgraph: cut(steps)})
	}
	return shares
}
