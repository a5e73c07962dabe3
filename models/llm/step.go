package llm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/models/bundle"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// A signature is one of a bundle's model, or a program's method. Its runtimes are made when it is loaded.
type signature struct {
	name     string
	model    models.Model
	instance *instance.Instance // nil until it is loaded
}

func openSignature(file string, section *bundle.Section, name string) (*signature, error) {
	model, err := tflite.Open(file, &tflite.Options{Signature: name, Offset: section.Offset, Size: section.Size})
	if err != nil {
		return nil, err
	}
	return &signature{name: name, model: model}, nil
}

// load makes the runtimes unless they are there.
func (s *signature) load(m *Model, threads int) (err error) {
	if s.instance == nil {
		s.instance, err = instance.New(s.model, instance.PackedIn(m.cache), threads)
	}
	return err
}

func (s *signature) close() error {
	if s.instance == nil {
		return s.model.Close()
	}
	return errors.Join(s.instance.Close(), s.model.Close())
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

// openStep opens a signature, and finds its inputs and outputs by their names, which are litert-torch's.
func (m *Model) openStep(section *bundle.Section, name string) (*step, error) {
	opened, err := openSignature(m.file, section, name)
	if err != nil {
		return nil, err
	}
	s := &step{signature: opened, ids: absent, embeddings: absent, positions: absent, mask: absent, logits: absent}
	if err := s.readValues(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *step) readValues() error {
	inputs, outputs := s.model.Inputs(), s.model.Outputs()
	stages, _ := models.StagesOf(s.model)
	for i, v := range inputs {
		switch {
		case v.Name == "tokens" && v.Element() == models.Int32:
			s.ids, s.tokens = i, xnnpack.Elements(v.Shape)
		case v.Name == "embeddings" && v.Element() == models.Float32 && len(v.Shape) == 3:
			s.embeddings, s.tokens = i, v.Shape[1]
		case v.Name == "input_pos" && v.Element() == models.Int32:
			s.positions = i
		case v.Name == "mask" && (v.Element() == models.Float32 || v.Element() == models.Bool):
			s.mask = i
			s.capacity = v.Shape[len(v.Shape)-1]
		case strings.HasPrefix(v.Name, "kv_cache_"):
			output := slices.IndexFunc(outputs, func(o models.Value) bool { return o.Name == v.Name })
			if output < 0 || !slices.Equal(outputs[output].Shape, v.Shape) || outputs[output].Type != v.Type {
				return fmt.Errorf("%w: input %q is no output of the same shape", ErrUnsupported, v.Name)
			}
			bytes, err := v.ByteSize()
			if err != nil {
				return err
			}
			s.caches = append(s.caches,
				cacheValue{v.Name, i, output, bytes, models.InPlace(stages, i, len(inputs)+output)})
		default:
			return fmt.Errorf("%w: input %q, %v%v", ErrUnsupported, v.Name, v.Element(), v.Shape)
		}
	}
	for i, v := range outputs {
		if v.Name == "logits" && v.Element() == models.Float32 {
			s.logits, s.vocabulary = i, v.Shape[len(v.Shape)-1]
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

// load makes the runtimes of the step and of its embedder unless they are there.
func (s *step) load(m *Model) error {
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
type embedder struct{ *signature }

// openEmbedder finds the embedder that makes as many vectors as a step takes.
func (m *Model) openEmbedder(s *step, section *bundle.Section, signatures []string) error {
	for _, name := range signatures {
		opened, err := openSignature(m.file, section, name)
		if err != nil {
			return fmt.Errorf("embedder %s: %w", name, err)
		}
		in, out, want := opened.model.Inputs(), opened.model.Outputs(), s.model.Inputs()[s.embeddings]
		if len(in) == 1 && len(out) == 1 && in[0].Element() == models.Int32 &&
			xnnpack.Elements(in[0].Shape) == s.tokens && out[0].Element() == models.Float32 &&
			slices.Equal(out[0].Shape, want.Shape) {
			s.embedder = &embedder{opened}
			return nil
		}
		if err := opened.close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no embedder of %d tokens", ErrUnsupported, s.tokens)
}

func (e *embedder) compute(dst *xnnpack.Buffer, ids []int32) error {
	e.instance.UseBuffers(nil, map[int]*xnnpack.Buffer{0: dst})
	if in := e.instance.Inputs[0]; e.model.Inputs()[0].Widened() {
		for i, id := range ids {
			in.Float32s()[i] = float32(id)
		}
	} else {
		copy(xnnpack.Numbers[int32](in), ids)
	}
	_, err := e.instance.Infer()
	return err
}
