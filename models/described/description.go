package described

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"xpwc/xnnpack"
)

// ErrInvalid is matched by every error about a description that is malformed or does not fit the tensors. It names
// the operator.
var ErrInvalid = errors.New("invalid description")

// ErrNone is matched by the error of [Open] that was given no description, of tensors that do not have one themselves.
// It matches ErrInvalid.
var ErrNone = fmt.Errorf("%w: there is none", ErrInvalid)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// An Operator describes how tensors are used. Members without a value are left out of the JSON.
type Operator struct {
	// Op is fully_connected, convolution_2d, depthwise_convolution_2d or deconvolution_2d; or [LeftOut], for a tensor
	// that is not packed, of which nothing else counts; or [Undecided], which must be replaced by one of the others.
	Op string `json:"op"`
	// Datatype is one of those in the package documentation.
	Datatype string `json:"datatype,omitzero"`

	// Weights, Bias and Scales are names of tensors. There may be no bias; there are scales for each datatype with a q.
	Weights string `json:"weights"`
	Bias    string `json:"bias,omitzero"`
	Scales  string `json:"scales,omitzero"`

	// ZeroPoint of 4-bit weights is 8 if they are stored unsigned, 0 if they are signed. They must have it.
	ZeroPoint *int32 `json:"zero_point,omitzero"`
	// BlockSize is how many weights of a channel share a scale: of qb4w, where it must be given.
	BlockSize int `json:"block_size,omitzero"`
	// Transposed: the weights of a fully_connected are [in, out].
	Transposed bool `json:"transposed,omitzero"`

	// Input and Output of qs8: they are packed in.
	Input  *Scale `json:"input,omitzero"`
	Output *Scale `json:"output,omitzero"`

	// Stride and Dilation of convolutions are [height, width], 1 by 1 if they are left out.
	Stride   []int `json:"stride,omitzero"`
	Dilation []int `json:"dilation,omitzero"`
	// Padding is [top, right, bottom, left]; SamePadding, in its place, is TensorFlow's SAME, which deconvolutions do
	// not have.
	Padding     []int `json:"padding,omitzero"`
	SamePadding bool  `json:"same_padding,omitzero"`
	// Groups of convolution_2d and deconvolution_2d, 1 if they are left out.
	Groups int `json:"groups,omitzero"`
	// DepthMultiplier of depthwise_convolution_2d is how many outputs an input channel has, 1 if it is left out.
	DepthMultiplier int `json:"depth_multiplier,omitzero"`
	// Adjustment of deconvolution_2d is what is added to the output at the bottom and on the right, [height, width].
	Adjustment []int `json:"adjustment,omitzero"`

	// Activation is the least and the greatest value of the output, null for no limit.
	Activation []*float32 `json:"activation,omitzero"`

	// Assumed names members that [Describe] could not know, and gave a usual value or left out. Note is for people.
	// Neither changes what is packed.
	Assumed []string `json:"assumed,omitzero"`
	Note    string   `json:"note,omitzero"`
}

// Values of Op that are no operators.
const (
	LeftOut   = "none"
	Undecided = "?"
)

// A Scale maps the integers q of a quantised value: Scale * (q - ZeroPoint).
type Scale struct {
	Scale     float32 `json:"scale"`
	ZeroPoint int32   `json:"zero_point"`
}

func (s *Scale) quantization() xnnpack.Quantization {
	return xnnpack.Quantization{Scale: s.Scale, ZeroPoint: s.ZeroPoint}
}

// Parse reads a description. It checks the JSON alone: [New] checks it against tensors. Errors match [ErrInvalid] and
// name the operator.
func Parse(description []byte) ([]Operator, error) {
	var operators []Operator
	if err := json.Unmarshal(description, &operators, json.RejectUnknownMembers(true)); err != nil {
		return nil, unread(err, description)
	}
	if len(operators) == 0 {
		return nil, invalid("it has no operators")
	}
	return operators, nil
}

// Format writes a description that Parse reads, with a line for each operator.
func Format(operators []Operator) ([]byte, error) {
	text := []byte("[")
	for i, o := range operators {
		line, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.title(i), err)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n  "...), line...)
	}
	return append(text, "\n]\n"...), nil
}

// title names an operator in errors: operators count from 0.
func (o *Operator) title(i int) string {
	title := fmt.Sprintf("operator %d", i)
	if o.Weights != "" {
		title += fmt.Sprintf(" (weights %q)", o.Weights)
	}
	return title
}

// unread returns why a description is malformed, in its own terms.
func unread(err error, description []byte) error {
	var text *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &text):
		return ofOperator(text.JSONPointer, invalid("%s: %v", place(description, text.ByteOffset), text.Err))
	case !errors.As(err, &wrong):
		return invalid("%v", err)
	case wrong.JSONPointer == "":
		return invalid("it is no JSON array of operators")
	}
	name, position := wrong.JSONPointer.LastToken(), place(description, wrong.ByteOffset)
	if errors.Is(err, json.ErrUnknownName) {
		return ofOperator(wrong.JSONPointer, invalid("%s: there is no member %q", position, name))
	}
	value := cmp.Or(string(wrong.JSONValue), fmt.Sprint("a JSON ", wrong.JSONKind))
	return ofOperator(wrong.JSONPointer, invalid("%s: %q cannot be %s", position, name, value))
}

// ofOperator adds the operator to an error.
func ofOperator(pointer jsontext.Pointer, err error) error {
	for number := range pointer.Tokens() {
		return fmt.Errorf("operator %s: %w", number, err)
	}
	return err
}

// place is where in a description a byte is, for people.
func place(description []byte, offset int64) string {
	prefix := description[:min(max(offset, 0), int64(len(description)))]
	line := bytes.Count(prefix, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, len(prefix)-bytes.LastIndexByte(prefix, '\n'))
}
