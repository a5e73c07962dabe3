package described

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An Operator says how tensors are used. Members without a value are left out of the JSON.
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

// What Op can be beside the operators.
const (
	LeftOut   = "none"
	Undecided = "?"
)

// A Scale says what the integers q of a quantised value mean: Scale * (q - ZeroPoint).
type Scale struct {
	Scale     float32 `json:"scale"`
	ZeroPoint int32   `json:"zero_point"`
}

// Parse reads a description. It checks the JSON alone: [New] checks it against tensors. Errors match [ErrInvalid] and
// name the operator.
func Parse(description []byte) ([]Operator, error) {
	d := jsontext.NewDecoder(bytes.NewReader(description))
	if d.PeekKind() != jsontext.KindBeginArray {
		return nil, invalid("it is no JSON array of operators")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, invalid("%v", err)
	}
	var operators []Operator
	for d.PeekKind() != jsontext.KindEndArray {
		var o Operator
		if err := json.UnmarshalDecode(d, &o, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: %w", o.title(len(operators)), unread(err, description))
		}
		operators = append(operators, o)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, invalid("%v", err)
	}
	if d.PeekKind() != jsontext.KindInvalid || len(bytes.TrimLeft(description[d.InputOffset():], " \t\r\n")) > 0 {
		return nil, invalid("something follows the array")
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

// unread says what is wrong with an operator that does not read as one, in the words of the description.
func unread(err error, description []byte) error {
	var text *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &text):
		return invalid("%s: %v", place(description, text.ByteOffset), text.Err)
	case !errors.As(err, &wrong):
		return invalid("%v", err)
	case errors.Is(err, json.ErrUnknownName):
		name, of := wrong.JSONPointer.LastToken(), reflect.TypeFor[Operator]()
		if strings.Count(string(wrong.JSONPointer), "/") > 2 { // in its input or output
			of = reflect.TypeFor[Scale]()
		}
		return invalid("%s: there is no member %q; did you mean %q?", place(description, wrong.ByteOffset), name,
			nearest(name, members(of)))
	case len(wrong.JSONValue) > 0:
		return invalid("%s: %q cannot be %s", place(description, wrong.ByteOffset), wrong.JSONPointer.LastToken(),
			wrong.JSONValue)
	}
	return invalid("%s: %q cannot be a JSON %v", place(description, wrong.ByteOffset), wrong.JSONPointer.LastToken(),
		wrong.JSONKind)
}

// place is where in a description a byte is, for people.
func place(description []byte, at int64) string {
	before := description[:min(max(at, 0), int64(len(description)))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// members are the names of a struct's members in JSON.
func members(of reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// nearest returns which of some names has the fewest letters to change in a name.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance is how many letters must be changed, added or removed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
