package flow

import (
	"slices"

	"xpwc/models"
)

// A lifetime is the stages that use a buffer, from the one that writes it first to the last one.
type lifetime struct{ first, last int }

// share gives buffers between stages the same memory where none is used while another is, and renames them in the
// stages. Without it a model needs memory for all that it computes between stages, and not for what exists at the same
// time. The buffers of states, which are the first ones, keep their own. external is how many buffers are the model's
// inputs and outputs.
func share(stages []models.Stage, between []models.Buffer, external int) []models.Buffer {
	states := slices.IndexFunc(between, func(b models.Buffer) bool { return b.Initial == nil })
	if states < 0 {
		return between
	}
	names, lifetimes := make([]int, len(between)), lifetimesOf(stages, len(between), external)
	order := make([]int, len(between)-states)
	for i := range between {
		if names[i] = i; i >= states {
			order[i-states] = i
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return lifetimes[a].first - lifetimes[b].first })
	shared := slices.Clone(between[:states])
	used := slices.Repeat([]int{len(stages)}, states) // the last stage that uses each of shared
	for _, i := range order {
		n := fit(shared, used, lifetimes[i].first, between[i].Size)
		if n == len(shared) {
			shared, used = append(shared, models.Buffer{}), append(used, 0)
		}
		names[i], used[n] = n, lifetimes[i].last
		shared[n].Size = max(shared[n].Size, between[i].Size)
	}
	for k := range stages {
		for _, list := range [][]int{stages[k].Inputs, stages[k].Outputs} {
			for j, n := range list {
				if n >= external {
					list[j] = external + names[n-external]
				}
			}
		}
		for j, g := range stages[k].Guards {
			if g.Buffer >= external {
				stages[k].Guards[j].Buffer = external + names[g.Buffer-external]
			}
		}
	}
	return shared
}

func lifetimesOf(stages []models.Stage, buffers, external int) []lifetime {
	lifetimes := slices.Repeat([]lifetime{{first: len(stages)}}, buffers)
	for k, s := range stages {
		used := slices.Concat(s.Inputs, s.Outputs)
		for _, g := range s.Guards {
			used = append(used, g.Buffer)
		}
		for _, n := range used {
			if n >= external {
				l := &lifetimes[n-external]
				l.first, l.last = min(l.first, k), k
			}
		}
	}
	return lifetimes
}

// fit returns the buffer for a value that a stage computes first. Of the buffers that no later stage uses it is the
// smallest one that is large enough, or else the largest one. If there is none it is a new buffer.
func fit(buffers []models.Buffer, used []int, first, size int) int {
	best := len(buffers)
	for n, b := range buffers {
		switch {
		case used[n] >= first:
		case best == len(buffers), buffers[best].Size < size && b.Size > buffers[best].Size,
			b.Size >= size && b.Size < buffers[best].Size:
			best = n
		}
	}
	return best
}
