package main

import (
	"context"

	"xpwc/models/llm"
)

// generate continues a text by up to n tokens, or until the model ends it, and gives each to emit. It reports whether
// the model ended it.
func generate(ctx context.Context, t text, prompt []int, n int, choose llm.Choice, ends map[int]bool,
	emit func(token int) error) (ended bool, err error) {
	for tokens := prompt; n > 0; n-- {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		logits, err := t.next(ctx, tokens)
		if err != nil {
			return false, err
		}
		token := int(choose(logits))
		if ends[token] {
			return true, nil
		}
		if err := emit(token); err != nil {
			return false, err
		}
		tokens = []int{token}
	}
	return false, nil
}
