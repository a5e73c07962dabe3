package llm

import (
	"context"
	"fmt"
	"slices"

	"xpwc"
	"xpwc/xnnpack"
)

// A Conversation is a text of tokens that the model continues. It has the keys and values of its tokens, and shares the
// weights. One goroutine uses it at a time.
type Conversation struct {
	model    *Model
	tokens   []int32
	computed int             // how many of the tokens have keys and values
	memory   []memoryOfCache // of the model's caches
}

// memoryOfCache is where keys or values of a layer lie. An inference that cannot change them in place writes into
// spare, which is nil until there is one, and then the two change places.
type memoryOfCache struct{ present, spare *xnnpack.Buffer }

// NewConversation begins an empty text. The caller closes it before the model.
func (m *Model) NewConversation() (*Conversation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("%s: %w", m.file, xpwc.ErrClosed)
	}
	c := &Conversation{model: m, memory: make([]memoryOfCache, len(m.caches))}
	m.open++
	for i, v := range m.caches {
		var err error
		if c.memory[i].present, err = xnnpack.NewBuffer(v.bytes); err != nil {
			m.open--
			c.free()
			return nil, err
		}
	}
	return c, nil
}

// Close gives the conversation's memory back. Closing twice is harmless.
func (c *Conversation) Close() error {
	m := c.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.memory == nil {
		return nil
	}
	m.open--
	c.free()
	return nil
}

func (c *Conversation) free() {
	for _, m := range c.memory {
		for _, b := range []*xnnpack.Buffer{m.present, m.spare} {
			if b != nil {
				b.Free()
			}
		}
	}
	c.memory = nil
}

// Tokens returns the text's tokens, prompts and answers.
func (c *Conversation) Tokens() []int32 { return slices.Clone(c.tokens) }

// Append adds tokens, such as those of a prompt. They are computed with the next call of Next or Logits. The error
// matches [ErrFull] or [ErrToken]; nothing is added then.
func (c *Conversation) Append(tokens ...int32) error {
	if c.memory == nil {
		return xpwc.ErrClosed
	}
	if n := len(c.tokens) + len(tokens); n > c.model.capacity {
		return fmt.Errorf("%d tokens, and the model has room for %d: %w", n, c.model.capacity, ErrFull)
	}
	for _, t := range tokens {
		if t < 0 || int(t) >= c.model.Vocabulary() {
			return fmt.Errorf("token %d of %d: %w", t, c.model.Vocabulary(), ErrToken)
		}
	}
	c.tokens = append(c.tokens, tokens...)
	return nil
}

// Truncate keeps the first n tokens, with their keys and values.
func (c *Conversation) Truncate(n int) {
	c.tokens = c.tokens[:min(n, len(c.tokens))]
	c.computed = min(c.computed, len(c.tokens))
}

// Next computes what was not computed yet, chooses the next token, and appends it. The error matches [ErrEmpty],
// [ErrFull], [xpwc.ErrLost], or is that of ctx, which is asked before each inference: then nothing is appended, and a
// later call goes on.
func (c *Conversation) Next(ctx context.Context, choose Choice) (int32, error) {
	var token int32
	err := c.compute(ctx, func(logits []float32) { token = choose(logits) })
	if err != nil {
		return 0, err
	}
	c.tokens = append(c.tokens, token)
	return token, nil
}

// Logits computes what was not computed yet, and returns the logits of the next token, of a copy of its own. Errors: as
// of Next.
func (c *Conversation) Logits(ctx context.Context) ([]float32, error) {
	return c.AppendLogits(ctx, nil)
}

// AppendLogits is Logits, appended to dst. With the memory of an earlier call a token makes no garbage.
func (c *Conversation) AppendLogits(ctx context.Context, dst []float32) ([]float32, error) {
	err := c.compute(ctx, func(l []float32) { dst = append(dst, l...) })
	return dst, err
}

// compute computes all tokens that have no keys and values, and the last one, after which do gets the logits.
func (c *Conversation) compute(ctx context.Context, do func(logits []float32)) error {
	switch {
	case c.memory == nil:
		return xpwc.ErrClosed
	case len(c.tokens) == 0:
		return ErrEmpty
	case len(c.tokens) > c.model.capacity:
		return fmt.Errorf("the model has room for %d tokens: %w", c.model.capacity, ErrFull)
	}
	c.computed = min(c.computed, len(c.tokens)-1)
	for c.computed < len(c.tokens) {
		if err := c.computeNext(ctx, do); err != nil {
			return err
		}
	}
	return nil
}

// computeNext computes some of the next tokens when nobody else computes. After the last one do gets the logits, which
// are the model's memory.
func (c *Conversation) computeNext(ctx context.Context, do func(logits []float32)) error {
	done, err := c.model.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	s, n := c.model.stepFor(len(c.tokens)-c.computed, c.computed)
	if err := s.load(c.model); err != nil {
		return err
	}
	if err := c.lend(s); err != nil {
		return err
	}
	if err := s.compute(c.tokens[c.computed:c.computed+n], c.computed); err != nil {
		return err
	}
	for i, v := range s.caches {
		if m := &c.memory[i]; !v.inPlace {
			m.present, m.spare = m.spare, m.present
		}
	}
	if c.computed += n; c.computed == len(c.tokens) {
		logits := s.instance.Outputs[s.logits].Float32s()
		do(logits[:s.vocabulary])
	}
	return nil
}

// stepFor returns what computes the next n tokens, or some of them, from a position on: decode computes the last one,
// and all where there is no prefill. Others are computed as by LiteRT-LM's engine: by the longest prefill if they fill
// it, or else the shortest that has room for them. At the end of the capacity there is decode: a prefill would write
// behind it.
func (m *Model) stepFor(n, position int) (s *step, count int) {
	s = m.decode
	if n == 1 || len(m.prefills) == 0 {
		return s, min(n, s.tokens)
	}
	for _, prefill := range m.prefills { // the longest first
		if position+prefill.tokens > m.capacity {
			continue
		}
		if s == m.decode || prefill.tokens >= n-1 {
			s = prefill
		}
	}
	return s, min(n-1, s.tokens)
}

// lend gives a step the conversation's memory for its inference.
func (c *Conversation) lend(s *step) (err error) {
	if s.keepsCaches() {
		var states []*xnnpack.Buffer
		for _, m := range c.memory {
			states = append(states, m.present)
		}
		s.instance.UseStates(states)
		return nil
	}
	inputs, outputs := map[int]*xnnpack.Buffer{}, map[int]*xnnpack.Buffer{}
	for i, v := range s.caches {
		m := &c.memory[i]
		inputs[v.input], outputs[v.output] = m.present, m.present
		if v.inPlace {
			continue
		}
		if m.spare == nil {
			if m.spare, err = xnnpack.NewBuffer(v.bytes); err != nil {
				return err
			}
		}
		outputs[v.output] = m.spare
	}
	s.instance.UseBuffers(inputs, outputs)
	return nil
}
