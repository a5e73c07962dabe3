package main

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// sampling is how the next token is chosen.
type sampling struct {
	temperature float64 // 0 takes the likeliest
	seed        uint64
}

// generate continues the text by up to n tokens, or until the model ends it, and gives each to emit.
func (i *instance) generate(ctx context.Context, prompt []int, n int, s sampling, end int, emit func(token int) error,
) error {
	random := rand.New(rand.NewPCG(s.seed, 0))
	for tokens := prompt; n > 0; n-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		logits, err := i.next(tokens)
		if err != nil {
			return err
		}
		token := greedy(logits)
		if s.temperature > 0 {
			token = sampled(logits, s.temperature, random)
		}
		if token == end {
			return nil
		}
		if err := emit(token); err != nil {
			return err
		}
		tokens = []int{token}
	}
	return nil
}

// greedy returns the likeliest token, and any if the logits are no numbers.
func greedy(logits []float32) int { return max(0, slices.Index(logits, slices.Max(logits))) }

// likeliest is how many tokens sampled draws from.
const likeliest = 40

// sampled draws one of the likeliest tokens.
func sampled(logits []float32, temperature float64, random *rand.Rand) int {
	top := make([]int, 0, likeliest+1) // the highest first
	for token, v := range logits {
		if len(top) == likeliest && v <= logits[top[likeliest-1]] {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, v, func(t int, v float32) int { return cmp.Compare(v, logits[t]) })
		top = slices.Insert(top, i, token)
		top = top[:min(len(top), likeliest)]
	}
	shares, sum := make([]float64, len(top)), 0.0
	for i, token := range top {
		shares[i] = math.Exp(float64(logits[token]-logits[top[0]]) / temperature)
		sum += shares[i]
	}
	drawn := random.Float64() * sum
	for i, share := range shares {
		if drawn -= share; drawn < 0 {
			return top[i]
		}
	}
	return top[0]
}
