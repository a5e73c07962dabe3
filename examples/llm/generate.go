package main

import (
	"context"
	"errors"

	"xpwc/models/llm"
)

// generate continues a text by up to n tokens, or until the model ends it or has no room for more, and gives each to
// emit. It reports whether the model ended it. The error matches llm.ErrFull only if there is no token.
func generate(ctx context.Context, t text, prompt []int, n int, choose llm.Choice, ends map[int]bool,
	emit func(token int) error) (ended bool, err error) {
	tokens := prompt
	for count := range n {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		logits, err := t.next(ctx, tokens)
		if errors.Is(err, llm.ErrFull) && count > 0 {
			return false, nil
		}
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
