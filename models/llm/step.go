package llm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// A signature is one of a bundle's model, or a program's method. It is planned, and its runtimes are made, when it is
// first used.
type signature struct {
	name     string
	file     *tflite.File       // of a bundle; nil of a program
	model    models.Model       // nil until it is open
	shapes   [][]int            // that the runtimes are made for at first, of a program
	instance *instance.Instance // nil until it is loaded
}

// load makes the runtimes of an open signature unless they are there.
func (s *signature) load(m *Model, threads int) (err error) {
	if s.instance == nil {
		s.instance, err = instance.NewShaped(s.model, instance.PackedIn(m.cache), threads, s.shapes)
	}
	return err
}

func (s *signature) close() (err error) {
	if s.instance != nil {
		err = s.instance.Close()
	}
	if s.model != nil {
		err = errors.Join(err, s.model.Close())
	}
	return err
}

// A step computes some tokens of a conversation: it is one signature of the model.
type step struct {
	*signature
	embedder *embedder // computes the input of embeddings; nil if tokens are the input

	tokens, capacity, vocabulary int
	ids, embeddings              int // inputs: one of them is absent
	positions, mask              int // inputs
	logits                       int // an output, or absent
	caches                       []cacheValue
}

const absent = -1

// A cacheValue is keys or values of a layer: an input, and the output with the same name, or a state that has neither.
type cacheValue struct {
	name          string
	input, output int
	bytes         int
	inPlace       bool // the output may lie in the input's memory
}

// newStep finds a signature's inputs by their names, which are litert-torch's. embeddings is the model of its embedder;
// it may be nil.
func newStep(file *tflite.File, name string, embeddings *tflite.File) (*step, error) {
	inputs, err := file.Inputs(name)
	if err != nil {
		return nil, err
	}
	s := &step{signature: &signature{name: name, file: file}, ids: absent, embeddings: absent, positions: absent,
		mask: absent, logits: absent}
	if err := s.readInputs(inputs); err != nil || s.embeddings == absent {
		return s, err
	}
	s.embedder, err = newEmbedder(embeddings, s.tokens, inputs[s.embeddings].Shape)
	return s, err
}

func (s *step) readInputs(inputs []models.Value) error {
	for i, v := range inputs {
		switch {
		case v.Name == "tokens" && v.Element() == models.Int32:
			s.ids, s.tokens = i, xnnpack.Elements(v.Shape)
		case v.Name == "embeddings" && v.Element() == models.Float32 && len(v.Shape) == 3:
			s.embeddings, s.tokens = i, v.Shape[1]
		case v.Name == "input_pos" && v.Element() == models.Int32:
			s.positions = i
		case v.Name == "mask" && (v.Element() == models.Float32 || v.Element() == models.Bool) && len(v.Shape) > 0:
			s.mask = i
			s.capacity = v.Shape[len(v.Shape)-1]
		case strings.HasPrefix(v.Name, "kv_cache_"):
			bytes, err := v.ByteSize()
			if err != nil {
				return err
			}
			s.caches = append(s.caches, cacheValue{name: v.Name, input: i, bytes: bytes})
		default:
			return fmt.Errorf("%w: input %q, %v%v", ErrUnsupported, v.Name, v.Element(), v.Shape)
		}
	}
	if (s.ids < 0) == (s.embeddings < 0) || s.positions < 0 || s.mask < 0 || len(s.caches) == 0 {
		return fmt.Errorf("%w: it needs inputs tokens or embeddings, input_pos, mask and kv_cache_…", ErrUnsupported)
	}
	if n := xnnpack.Elements(inputs[s.positions].Shape); n != s.tokens {
		return fmt.Errorf("%w: %d positions of %d tokens", ErrUnsupported, n, s.tokens)
	}
	if n := xnnpack.Elements(inputs[s.mask].Shape); n != s.tokens*s.capacity {
		return fmt.Errorf("%w: a mask of %v for %d tokens", ErrUnsupported, inputs[s.mask].Shape, s.tokens)
	}
	return nil
}

// open plans the step and its embedder unless they are open, and finds the outputs.
func (s *step) open() error {
	if s.model != nil {
		return nil
	}
	model, err := s.file.Open(s.name)
	if err == nil {
		err = s.readOutputs(model)
	}
	if err == nil && s.embedder != nil {
		err = s.embedder.open()
	}
	if err != nil {
		return fmt.Errorf("signature %s: %w", s.name, err)
	}
	s.model = model
	return nil
}

func (s *step) readOutputs(model models.Model) error {
	inputs, outputs := model.Inputs(), model.Outputs()
	stages, _ := models.StagesOf(model)
	for i := range s.caches {
		c := &s.caches[i]
		v := inputs[c.input]
		c.output = slices.IndexFunc(outputs, func(o models.Value) bool { return o.Name == c.name })
		if c.output < 0 || !slices.Equal(outputs[c.output].Shape, v.Shape) || outputs[c.output].Type != v.Type {
			return fmt.Errorf("%w: input %q is no output of the same shape", ErrUnsupported, c.name)
		}
		c.inPlace = models.InPlace(stages, c.input, len(inputs)+c.output)
	}
	for i, v := range outputs {
		if v.Name == "logits" && v.Element() == models.Float32 && len(v.Shape) > 0 {
			s.logits, s.vocabulary = i, v.Shape[len(v.Shape)-1]
		}
	}
	return nil
}

// load opens the step, and makes its runtimes and its embedder's, unless that is done.
func (s *step) load(m *Model) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.embedder != nil {
		if err := s.embedder.load(m, 1); err != nil {
			return err
		}
	}
	return s.signature.load(m, m.options.Threads)
}

func (s *step) close() error {
	err := s.signature.close()
	if s.embedder != nil {
		err = errors.Join(err, s.embedder.close())
	}
	return err
}

// keepsCaches reports whether keys and values are states of the method, as in a program. In a bundle they are inputs
// and outputs, and a mask hides what follows a token.
func (s *step) keepsCaches() bool { return s.mask == absent }

// compute computes tokens of a conversation, the first of which is at a position. There may be fewer than the step
// takes: what follows them is overwritten when their successors are computed, and no token sees it before.
func (s *step) compute(tokens []int32, position int) error {
	if s.keepsCaches() {
		return s.computeAny(tokens, position)
	}
	ids := make([]int32, s.tokens)
	copy(ids, tokens)
	if s.embedder == nil {
		copy(xnnpack.Numbers[int32](s.instance.Inputs[s.ids]), ids)
	} else if err := s.embedder.compute(s.instance.Inputs[s.embeddings], ids); err != nil {
		return err
	}
	positions := xnnpack.Numbers[int32](s.instance.Inputs[s.positions])
	for i := range positions {
		positions[i] = int32(position + i)
	}
	s.maskFrom(position)
	_, err := s.instance.Infer()
	return err
}

// unseen is what is added to the score of a token that comes later: its share is then zero.
const unseen = -0.7 * math.MaxFloat32

// maskFrom lets each token see those before it and itself.
func (s *step) maskFrom(position int) {
	booleans := s.model.Inputs()[s.mask].Element() == models.Bool
	mask := s.instance.Inputs[s.mask]
	for i := range s.tokens {
		first, seen := i*s.capacity, min(position+i+1, s.capacity)
		if booleans {
			row := mask.Bytes()[first : first+s.capacity]
			clear(row)
			for k := range row[:seen] {
				row[k] = 1
			}
			continue
		}
		row := mask.Float32s()[first : first+s.capacity]
		clear(row[:seen])
		for k := seen; k < len(row); k++ {
			row[k] = unseen
		}
	}
}

// An embedder computes the vectors of tokens: a signature of a model of its own.
type embedder struct {
	*signature
	shape []int // of the vectors
}

// newEmbedder finds the signature of a file that takes as many tokens as a step, which takes vectors of a shape.
func newEmbedder(file *tflite.File, tokens int, shape []int) (*embedder, error) {
	var names []string
	if file != nil {
		names = file.Signatures()
	}
	for _, name := range names {
		in, err := file.Inputs(name)
		if err != nil {
			return nil, fmt.Errorf("embedder %s: %w", name, err)
		}
		if len(in) == 1 && in[0].Element() == models.Int32 && xnnpack.Elements(in[0].Shape) == tokens {
			return &embedder{&signature{name: name, file: file}, shape}, nil
		}
	}
	return nil, fmt.Errorf("%w: no embedder of %d tokens", ErrUnsupported, tokens)
}

func (e *embedder) open() error {
	model, err := e.file.Open(e.name)
	if err != nil {
		return fmt.Errorf("embedder %s: %w", e.name, err)
	}
	out := model.Outputs()
	if len(out) != 1 || out[0].Element() != models.Float32 || !slices.Equal(out[0].Shape, e.shape) {
		return fmt.Errorf("%w: embedder %s does not compute vectors of shape %v", ErrUnsupported, e.name, e.shape)
	}
	e.model = model
	return nil
}

func (e *embedder) compute(dst *xnnpack.Buffer, ids []int32) error {
	e.instance.UseBuffers(nil, map[int]*xnnpack.Buffer{0: dst})
	copy(xnnpack.Numbers[int32](e.instance.Inputs[0]), ids)
	_, err := e.instance.Infer()
	return err
}
