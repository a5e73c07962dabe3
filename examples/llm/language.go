package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/models/bundle"
	"xpwc/models/llm"
)

// A language is a model of any format with its packed weights. Its methods may be called from many goroutines.
type language interface {
	// newText begins an empty text. The caller closes it.
	newText() (text, error)
	// tokenizer makes the model's tokenizer.
	tokenizer() (*tokenizer, error)
	// packedWeights is the cache, or nil if there is none.
	packedWeights() *xpwc.Cache
	close() error
}

// A text is tokens with their keys and values. One goroutine uses it at a time.
type text interface {
	// next adds tokens, one at least, and returns the logits of the next token, which stay until the next call.
	next(ctx context.Context, tokens []int) (logits []float32, err error)
	close() error
}

// openLanguage opens the model of a file, by its format. The caller closes it after its texts.
func openLanguage(o options) (language, error) {
	extension := strings.ToLower(filepath.Ext(o.model))
	named := slices.Contains([]string{".pte", ".litertlm", ".task"}, extension)
	if named || bundle.Recognized(o.model) {
		m, err := llm.Open(o.model, o.cache, &llm.Options{Threads: o.threads})
		if err != nil {
			return nil, err
		}
		if extension == ".pte" {
			path := cmp.Or(o.tokenizer, filepath.Join(filepath.Dir(o.model), "tokenizer.json"))
			return &modelLanguage{m, func() (*tokenizer, error) { return programTokenizer(path, m) }, path}, nil
		}
		return &modelLanguage{m, func() (*tokenizer, error) { return bundleTokenizer(o.model) }, o.model}, nil
	}
	if extension == ".tflite" {
		return nil, fmt.Errorf("%s: a language model is a .gguf, .litertlm or .pte file, and not a %s", o.model,
			extension)
	}
	m, err := openModel(o.model, o.weights)
	if err != nil {
		return nil, err
	}
	g := &ggufLanguage{model: m, threads: o.threads}
	if o.cache != "" {
		if g.cache, err = xpwc.Open(o.cache, nil); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	return g, nil
}

// ggufLanguage makes its graph of a GGUF file. Each text has a runtime of its own.
type ggufLanguage struct {
	model   *model
	cache   *xpwc.Cache // nil if there is to be none
	threads int
}

func (g *ggufLanguage) newText() (text, error) {
	i, err := g.model.newInstance(g.cache, g.threads)
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (g *ggufLanguage) tokenizer() (*tokenizer, error) { return newTokenizer(g.model.file) }

func (g *ggufLanguage) packedWeights() *xpwc.Cache { return g.cache }

func (g *ggufLanguage) close() (err error) {
	if g.cache != nil {
		err = g.cache.Close()
	}
	return errors.Join(err, g.model.close())
}

// modelLanguage is a bundle of LiteRT-LM or a program of ExecuTorch.
type modelLanguage struct {
	model         *llm.Model
	readTokenizer func() (*tokenizer, error)
	tokenizerFile string
}

func (l *modelLanguage) newText() (text, error) {
	c, err := l.model.NewConversation()
	if err != nil {
		return nil, err
	}
	return &conversation{Conversation: c}, nil
}

func (l *modelLanguage) tokenizer() (*tokenizer, error) {
	t, err := l.readTokenizer()
	if err == nil && len(t.ids.words) > l.model.Vocabulary() {
		err = fmt.Errorf("%s: %w: %d tokens, and the model knows %d", l.tokenizerFile, errMalformed, len(t.ids.words),
			l.model.Vocabulary())
	}
	return t, err
}

func (l *modelLanguage) packedWeights() *xpwc.Cache { return l.model.Cache() }

func (l *modelLanguage) close() error { return l.model.Close() }

type conversation struct {
	*llm.Conversation
	logits []float32 // of the latest token
}

func (c *conversation) next(ctx context.Context, tokens []int) ([]float32, error) {
	ids := make([]int32, len(tokens))
	for i, t := range tokens {
		ids[i] = int32(t)
	}
	if err := c.Append(ids...); err != nil {
		return nil, err
	}
	logits, err := c.AppendLogits(ctx, c.logits[:0])
	c.logits = logits
	return logits, err
}

func (c *conversation) close() error { return c.Close() }
