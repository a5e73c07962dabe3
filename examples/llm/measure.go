package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// measured is what make bench-llm reads of an answer from every program. It has the clock: see measureAnswers.
type measured struct {
	Figures struct {
		PromptTokens int `json:"prompt_tokens"`
		AnswerTokens int `json:"answer_tokens"`
		Packed       int `json:"packed"`
	} `json:"figures"`
	Answer string `json:"answer"` // in hexadecimal digits
}

// measureAnswers answers two prompts. It prints an empty line when it has the first token of the first answer, when it
// begins with the second prompt, and when it has the first and the last token of the second answer. Then it prints the
// second answer in JSON, and returns when stdin ends.
func (s *service) measureAnswers(ctx context.Context, prompt, second string, stdin io.Reader, w io.Writer) error {
	mark := func() { fmt.Fprintln(w) }
	if _, err := s.measureAnswer(ctx, prompt, mark); err != nil {
		return err
	}
	mark()
	m, err := s.measureAnswer(ctx, second, mark)
	if err != nil {
		return err
	}
	mark()
	if cache := s.packedWeights(); cache != nil {
		m.Figures.Packed = int(cache.Stats().Packed.Entries)
	}
	if err := json.NewEncoder(w).Encode(m); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func (s *service) measureAnswer(ctx context.Context, prompt string, begun func()) (m measured, err error) {
	p, err := s.begin(prompt)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	m.Figures.PromptTokens = len(p.ids)
	var answer strings.Builder
	_, err = generate(ctx, p, p.ids, s.options.tokens, s.sampling.Choice(), p.tokens.ends, func(token int) error {
		answer.WriteString(p.tokens.decode(token))
		if m.Figures.AnswerTokens++; m.Figures.AnswerTokens == 1 {
			begun()
		}
		s.onToken()
		return nil
	})
	m.Answer = hex.EncodeToString([]byte(answer.String()))
	return m, err
}
