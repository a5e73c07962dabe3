package compute

// A Window moves over the last dimensions of an array. Each list has a number for every one of these.
type Window struct {
	Size, Stride, Dilation []int
	Before                 []int // how far it begins before the first element
}

// Under fills an output with what is under a window at each of its places, zeros where there is nothing: the input is
// [batch, channels, …], and the output [batch * groups, places, channels of a group * elements of a window]. There are
// as many places along each of the last dimensions as the list says.
func Under(w Window, out, in Array, places []int, groups int) error {
	clear(out.Data)
	sizes := in.Shape[2:]
	inner, count, size := product(sizes), product(places), product(w.Size)
	channels := in.Shape[1] / groups
	far := Rows(sizes)
	at := make([][]int, count) // for each place, where each element of the window is in the input, or -1
	walkIndices(places, func(place int, index []int) {
		at[place] = make([]int, size)
		walkIndices(w.Size, func(k int, element []int) {
			for d, e := range element {
				n := index[d]*w.Stride[d] - w.Before[d] + e*w.Dilation[d]
				if n < 0 || n >= sizes[d] {
					at[place][k] = -1
					return
				}
				at[place][k] += n * far[d]
			}
		})
	})
	for g := range in.Shape[0] * groups {
		for place, elements := range at {
			to := (g*count + place) * channels * size
			for ch := range channels {
				for k, from := range elements {
					if from >= 0 {
						copy(out.at(to+ch*size+k), in.at((g*channels+ch)*inner+from))
					}
				}
			}
		}
	}
	return nil
}

// MeanUnder fills an output of [batch, channels, …] with the mean of what is under a window at each of its places.
// Beside elements of the input, zeros count as far as padded says, before the first element and after the last. A
// divisor that is not 0 takes the place of their number.
func MeanUnder(w Window, out, in Array, padded []int, divisor float64) error {
	sizes, places := in.Shape[2:], out.Shape[2:]
	inner, count := product(sizes), product(places)
	far := Rows(sizes)
	walkIndices(places, func(place int, index []int) {
		var elements []int
		counted := 0
		walkIndices(w.Size, func(_ int, element []int) {
			at, inside := 0, true
			for d, e := range element {
				n := index[d]*w.Stride[d] - w.Before[d] + e
				if n < -padded[d] || n >= sizes[d]+padded[d] {
					return
				}
				at += n * far[d]
				inside = inside && n >= 0 && n < sizes[d]
			}
			if counted++; inside {
				elements = append(elements, at)
			}
		})
		by := divisor
		if by == 0 {
			by = float64(counted)
		}
		for ch := range in.Shape[0] * in.Shape[1] {
			sum := 0.0
			for _, at := range elements {
				sum += in.Number(ch*inner + at)
			}
			out.Put(ch*count+place, sum/by)
		}
	})
	return nil
}

// walkIndices calls do with each index of a shape, in order.
func walkIndices(shape []int, do func(i int, index []int)) {
	index := make([]int, len(shape))
	for i := range product(shape) {
		do(i, index)
		for d := len(shape) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}
