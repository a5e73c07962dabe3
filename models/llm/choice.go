package llm

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// A Choice chooses the next token by the logits of all tokens, which it must not keep or change.
type Choice func(logits []float32) int32

// Greedy chooses the likeliest token, the first of equals; and any if a logit is no number.
func Greedy(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Sampling describes how a token is drawn. The zero value is Greedy.
type Sampling struct {
	Temperature float64 // logits are divided by it; 0 takes the likeliest token
	TopK        int     // only so many of the likeliest tokens are drawn from; 0 means 40
	TopP        float64 // only the likeliest tokens that have this probability together; 0 means all
	Seed        uint64
}

// Choice returns a Choice that draws tokens. Equal Samplings draw equal tokens from equal logits. The Choice is for one
// conversation.
func (s Sampling) Choice() Choice {
	if s.Temperature <= 0 {
		return Greedy
	}
	random := rand.New(rand.NewPCG(s.Seed, 0))
	return func(logits []float32) int32 {
		top := likeliest(logits, cmp.Or(s.TopK, 40))
		shares, sum := make([]float64, len(top)), 0.0
		for i, token := range top {
			shares[i] = math.Exp(float64(logits[token]-logits[top[0]]) / s.Temperature)
			sum += shares[i]
		}
		if s.TopP > 0 && s.TopP < 1 {
			reached := 0.0
			for i, share := range shares {
				if reached += share; reached >= s.TopP*sum {
					top, shares, sum = top[:i+1], shares[:i+1], reached
					break
				}
			}
		}
		drawn := random.Float64() * sum
		for i, share := range shares {
			if drawn -= share; drawn < 0 {
				return top[i]
			}
		}
		return top[0]
	}
}

// likeliest returns up to n tokens, the likeliest first, of equals the first.
func likeliest(logits []float32, n int) []int32 {
	n = min(max(n, 1), len(logits))
	top := make([]int32, 0, n+1)
	for token, v := range logits {
		if len(top) == n && v <= logits[top[n-1]] {
			continue
		}
		i := sort.Search(len(top), func(i int) bool { return logits[top[i]] < v })
		top = slices.Insert(top, i, int32(token))
		top = top[:min(len(top), n)]
	}
	return top
}
