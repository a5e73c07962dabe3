package llm

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/models"
	"xpwc/models/executorch"
	"xpwc/xnnpack"
)

// Methods of a program that ExecuTorch's export_llm writes. All but the first return numbers.
const (
	programMethod   = "forward"
	contextLength   = "get_max_context_len"
	sequenceLength  = "get_max_seq_len" // of programs without the former
	endTokens       = "get_eos_ids"
	tokensInput     = 0
	positionInput   = 1
	inputsOfProgram = 2
)

// readProgram finds the method of a program that computes tokens from a position on, and keeps their keys and values.
func (m *Model) readProgram() error {
	p, err := executorch.Open(m.file)
	if err != nil {
		return err
	}
	method, err := p.Method(programMethod)
	if err == nil {
		err = method.Runnable()
	}
	if err != nil {
		return errors.Join(err, p.Close())
	}
	m.decode = &step{signature: &signature{name: programMethod, model: method}, mask: absent} // closes the program, too
	if err := m.decode.readMethod(method); err != nil {
		return err
	}
	m.caches = m.decode.caches
	for _, name := range []string{contextLength, sequenceLength} {
		if n := integersOf(p, name); len(n) == 1 && m.capacity == 0 {
			m.capacity = int(n[0])
		}
	}
	if m.capacity < 1 {
		return fmt.Errorf("%w: its %s and %s return no length", ErrUnsupported, contextLength, sequenceLength)
	}
	for _, id := range integersOf(p, endTokens) {
		m.ends = append(m.ends, int32(id))
	}
	return nil
}

// integersOf returns the integers that a method returns, or nil if there is no such method.
func integersOf(p *executorch.Program, name string) (list []int64) {
	method, err := p.Method(name)
	if err != nil {
		return nil
	}
	for _, v := range method.Metadata() {
		if n, ok := v.(int64); ok {
			list = append(list, n)
		}
	}
	return list
}

// readMethod sees that a method takes tokens and the position of the first, and returns logits.
func (s *step) readMethod(method *executorch.Method) error {
	inputs, outputs := method.Inputs(), method.Outputs()
	if len(inputs) != inputsOfProgram || len(outputs) != 1 {
		return fmt.Errorf("%w: %d inputs and %d outputs, and it needs tokens, a position and logits", ErrUnsupported,
			len(inputs), len(outputs))
	}
	tokens, position, logits := inputs[tokensInput], inputs[positionInput], outputs[0]
	if tokens.Element() != models.Int64 || len(tokens.Shape) != 2 || tokens.Shape[0] != 1 ||
		position.Element() != models.Int64 || xnnpack.Elements(position.Shape) != 1 {
		return fmt.Errorf("%w: inputs %v%v and %v%v, and it needs tokens int64[1, n] and a position int64[1]",
			ErrUnsupported, tokens.Element(), tokens.Shape, position.Element(), position.Shape)
	}
	if logits.Element() != models.Float32 || len(logits.Shape) == 0 || logits.Dynamic {
		return fmt.Errorf("%w: output %v%v, and it needs float32 logits of the last token", ErrUnsupported,
			logits.Element(), logits.Shape)
	}
	s.tokens, s.vocabulary = tokens.Shape[1], logits.Shape[len(logits.Shape)-1]
	if tokens.Dynamic {
		s.shapes = shapesOf(method, 1)
	}
	_, between := models.StagesOf(method)
	for i, b := range between {
		if b.Initial != nil {
			s.caches = append(s.caches, cacheValue{name: fmt.Sprint("state ", i), bytes: b.Size, inPlace: true})
		}
	}
	if len(s.caches) == 0 {
		return fmt.Errorf("%w: it keeps no keys and values: export it with use_kv_cache", ErrUnsupported)
	}
	return nil
}

// computeAny computes tokens by a method that takes any number of them and keeps their keys and values itself.
func (s *step) computeAny(tokens []int32, position int) error {
	if err := s.instance.ShapeInputs(shapesOf(s.model, len(tokens))); err != nil {
		return err
	}
	ids := xnnpack.Numbers[int64](s.instance.Inputs[tokensInput])
	for i, t := range tokens {
		ids[i] = int64(t)
	}
	xnnpack.Numbers[int64](s.instance.Inputs[positionInput])[0] = int64(position)
	_, err := s.instance.Infer()
	return err
}

// shapesOf returns the shapes of a method's inputs for so many tokens.
func shapesOf(method models.Model, tokens int) [][]int {
	return [][]int{{1, tokens}, slices.Clone(method.Inputs()[positionInput].Shape)}
}
