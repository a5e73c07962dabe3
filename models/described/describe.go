package described

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"xpwc/models/safetensors"
)

// Describe returns a description to start from, in the order of the tensors: an operator for each tensor that by its
// name, type and shape can be the weights of one, with its bias and scales, and [LeftOut] with a reason for each other
// tensor. If the name does not show enough, Op is [Undecided]. What a file of tensors does not have, as the limits
// of outputs, is in Assumed.
//
// New accepts operators that are not Undecided and, of qs8, have Input and Output. A person decides whether they are
// the model's operators.
func Describe(tensors Tensors) []Operator {
	g := &guesser{tensors: tensors, used: map[string]bool{}}
	for _, t := range tensors.Tensors() {
		if t.Name != safetensors.PackedName {
			g.list = append(g.list, t)
		}
	}
	g.transposed = g.findTransposed()
	var guessed []Operator
	for _, t := range g.list {
		guessed = append(guessed, g.guess(t))
	}
	return slices.DeleteFunc(guessed, func(o Operator) bool { return g.used[o.Weights] })
}

// A guesser guesses how tensors are used.
type guesser struct {
	tensors Tensors
	list    []safetensors.Tensor
	used    map[string]bool // names of biases and scales

	transposed bool // matrices of the model are stored [in, out]
}

// The endings of the names of weights: PyTorch's and, of matrices [in, out], Flax'. What follows them, optimum-quanto
// adds.
var (
	weightName = regexp.MustCompile(`(?:^|[._/])(weight)(?:\._data)?$`)
	kernelName = regexp.MustCompile(`(?:^|[._/])(kernel)$`)
)

// sibling returns the usual name of the bias or scales of weights, and "" if the weights have no usual name.
func sibling(weights, role string) string {
	for _, name := range []*regexp.Regexp{weightName, kernelName} {
		if span := name.FindStringSubmatchIndex(weights); span != nil {
			return weights[:span[2]] + role
		}
	}
	return ""
}

// find returns the first tensor of the given names that there is.
func (g *guesser) find(names ...string) (safetensors.Tensor, bool) {
	for _, name := range names {
		if t, ok := g.tensors.Lookup(name); ok && name != "" {
			return t, true
		}
	}
	return safetensors.Tensor{}, false
}

func (g *guesser) bias(weights string) (safetensors.Tensor, bool) {
	return g.find(sibling(weights, "bias"), weights+".bias", weights+"_bias")
}

// scales finds what torchao, gpt-fast, compressed-tensors and optimum-quanto name so.
func (g *guesser) scales(weights string) (safetensors.Tensor, bool) {
	return g.find(sibling(weights, "scales"), sibling(weights, "scale"), sibling(weights, "weight_scale"),
		sibling(weights, "weight._scale"), weights+".scales", weights+".scale", weights+"_scales", weights+"_scale")
}

// findTransposed reports whether the biases show matrices that are stored [in, out], as in GPT-2, and none that
// are stored otherwise.
func (g *guesser) findTransposed() bool {
	matched := false
	for _, t := range g.list {
		bias, ok := g.bias(t.Name)
		if !ok || len(t.Shape) != 2 || len(bias.Shape) != 1 || t.Shape[0] == t.Shape[1] {
			continue
		}
		switch bias.Shape[0] {
		case t.Shape[0]:
			return false
		case t.Shape[1]:
			matched = true
		}
	}
	return matched
}

func leftOut(t safetensors.Tensor, format string, args ...any) Operator {
	return Operator{Op: LeftOut, Weights: t.Name, Note: fmt.Sprintf(format, args...)}
}

func undecided(t safetensors.Tensor, format string, args ...any) Operator {
	return Operator{Op: Undecided, Weights: t.Name, Note: fmt.Sprintf(format, args...)}
}

var (
	normName = regexp.MustCompile(`(?i)norm|(^|[._/])(ln|bn)(_?\w+|\d*)?[._/]|running_(mean|var)`)
	// embeddingName has the names of tables in models of Hugging Face, torchtune, GPT-2, BERT and T5.
	embeddingName = regexp.MustCompile(`(?i)(^|[._/])(\w*emb(ed(ding|dings|_tokens|_positions)?)?|wte|wpe|shared|` +
		`relative_attention_bias)([._/](weight|embedding))?$`)
	headName = regexp.MustCompile(`(^|[._/])(lm_head|output|embed_out|head)\.weight$`)
)

// guess guesses what a tensor is used for, and takes its bias and scales.
func (g *guesser) guess(t safetensors.Tensor) Operator {
	switch {
	case t.Dtype == "":
		return leftOut(t, "the file does not have its type and shape")
	case len(t.Shape) < 2 && normName.MatchString(t.Name):
		return leftOut(t, "of a norm")
	case len(t.Shape) < 2:
		return leftOut(t, "no matrix")
	case len(t.Shape) != 2 && len(t.Shape) != 4:
		return leftOut(t, "of %d dimensions: the weights of every operator have 2 or 4", len(t.Shape))
	case slices.Contains(t.Shape, 0):
		return leftOut(t, "empty")
	}
	o := Operator{Weights: t.Name, Assumed: []string{"activation"}}
	if bias, ok := g.bias(t.Name); ok {
		o.Bias, g.used[bias.Name] = bias.Name, true
	}
	if len(t.Shape) == 4 {
		return undecided(t, "weights of images: of [out, height, width, in], as XNNPACK takes them, op is %s; PyTorch "+
			"stores [out, in, height, width]: save it permuted by (0, 2, 3, 1), or for %s by (1, 2, 3, 0)",
			strings.Join(operators[1:], ", "), depthwise)
	}
	return g.guessMatrix(t, o)
}

func (g *guesser) guessMatrix(t safetensors.Tensor, o Operator) Operator {
	kernel := kernelName.MatchString(t.Name)
	_, quantized := g.scales(t.Name)
	switch {
	case embeddingName.MatchString(t.Name):
		note := "an embedding: rows are looked up, not multiplied"
		if !slices.ContainsFunc(g.list, func(t safetensors.Tensor) bool { return headName.MatchString(t.Name) }) {
			note += "; if the output is computed with it too, op is " + fullyConnected
		}
		return leftOut(t, "%s", note)
	case !quantized && !kernel && !weightName.MatchString(t.Name):
		if t.Dtype != safetensors.F32 && t.Dtype != safetensors.F16 {
			return leftOut(t, "of %s, and not named as weights; what GPTQ, AWQ and MLX store is not what XNNPACK takes",
				t.Dtype)
		}
		return undecided(t, "its name does not say whether inputs are multiplied by it (%s), or not (%s)",
			fullyConnected, LeftOut)
	}
	o.Op = fullyConnected
	bias, hasBias := g.find(o.Bias)
	square := t.Shape[0] == t.Shape[1]
	switch {
	case kernel, hasBias && square && g.transposed:
		o.Transposed = true
		o.Assumed = append(o.Assumed, "transposed")
	case hasBias && !square && slices.Equal(bias.Shape, t.Shape[1:]):
		o.Transposed = true
	}
	return g.guessDatatype(t, o)
}

// guessDatatype completes an operator with the types, and leaves out what no datatype takes.
func (g *guesser) guessDatatype(t safetensors.Tensor, o Operator) Operator {
	scales, quantized := g.scales(t.Name)
	if quantized {
		o.Scales, g.used[scales.Name] = scales.Name, true
	}
	if reason := g.otherScheme(t); reason != "" {
		return leftOut(t, "%s", reason)
	}
	switch t.Dtype {
	case safetensors.F32:
		o.Datatype = "f32"
	case safetensors.F16:
		o.Datatype = "f16"
	case safetensors.I8, safetensors.U8:
		if !quantized {
			return undecided(t, "integers without scales of a usual name: give datatype and scales, or op is %s",
				LeftOut)
		}
		g.guessQuantized(t, scales, &o)
	default:
		return leftOut(t, "of %s, which no datatype takes: save it as F32, or matrices as F16", t.Dtype)
	}
	return g.checked(t, o)
}

// otherScheme returns how a tensor is quantised, if XNNPACK has no such way.
func (g *guesser) otherScheme(t safetensors.Tensor) string {
	zeros, ok := g.find(sibling(t.Name, "weight_zero_point"), sibling(t.Name, "zero_point"),
		sibling(t.Name, "zero_points"), sibling(t.Name, "zeros"))
	if !ok {
		return ""
	}
	g.used[zeros.Name] = true
	return fmt.Sprintf("quantised with zero points, %q: XNNPACK takes weights whose zero point is 0, or 8 of unsigned "+
		"4-bit numbers; if these are so, save the others without them", zeros.Name)
}

// guessQuantized completes an operator of integers with scales.
func (g *guesser) guessQuantized(t, scales safetensors.Tensor, o *Operator) {
	bias, _ := g.find(o.Bias)
	switch {
	case t.Dtype == safetensors.I8 && bias.Dtype == safetensors.I32:
		o.Datatype = "qs8_qc8w"
		o.Note = `give "input" and "output", the quantisation of the activations: {"scale": 0.5, "zero_point": 0}`
	case t.Dtype == safetensors.I8:
		o.Datatype = "qd8_f32_qc8w"
	default: // two to a byte
		eight := int32(8)
		o.ZeroPoint, o.Datatype = &eight, "qd8_f32_qc4w"
		o.Assumed = append(o.Assumed, "zero_point")
		if n := len(scales.Data) / 2; scales.Dtype == safetensors.BF16 && n > 0 {
			o.Datatype, o.BlockSize = "qd8_f32_qb4w", 2*len(t.Data)/n
		}
	}
	o.Assumed = append(o.Assumed, "datatype")
}

// checked returns an operator if the tensors fit it, and leaves them out otherwise.
func (g *guesser) checked(t safetensors.Tensor, o Operator) Operator {
	slices.Sort(o.Assumed)
	complete := o
	if o.Datatype == "qs8_qc8w" {
		complete.Input, complete.Output = &Scale{Scale: 1}, &Scale{Scale: 1}
	}
	if err := newModel(g.tensors).add(complete); err != nil {
		return leftOut(t, "not packed as it is: %s", strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "))
	}
	return o
}
