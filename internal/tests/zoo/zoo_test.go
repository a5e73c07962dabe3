//go:build cgo

package zoo

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/execution"
	"xpwc/internal/half"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
	"xpwc/models/npy"
	"xpwc/models/safetensors"
)

var update = flag.Bool("update", false, "write docs/models.md")

// A format is a kind of model file, with the datatypes that its exporters are asked for and the relative L2 distance
// that the answers may have in each.
type format struct {
	name, title string
	datatypes   []string
	highest     map[string]float64
}

var formats = []format{
	{"tflite", "`.tflite`: Keras, converted by TensorFlow", []string{"fp32", "fp16", "dyn", "int8", "int16"},
		map[string]float64{"fp32": 1e-3, "fp16": 1e-3, "dyn": 5e-2, "int8": 5e-2, "int16": 2e-3}},
	{"pte", "`.pte`: PyTorch, exported by ExecuTorch for XNNPACK", []string{"fp32", "fp16", "dyn", "int8"},
		map[string]float64{"fp32": 1e-4, "fp16": 1e-2, "dyn": 2e-2, "int8": 2e-2}},
}

// refused are the families of models that have operators which do not run in Go.
var refused = map[string]bool{}

// An answer is how a model ran.
type answer struct {
	distance float64 // the largest of its outputs', relative to what the stock runtime answers
	refused  error
	// Where the model is there in single precision too, with the same inputs, the largest distances from what the stock
	// runtime answers to that one: of the answer, and of the stock runtime's own.
	precise           bool
	toFloats, stockTo float64
}

// nearFloats is how far an answer is from that in single precision at most if nothing but rounding is between them. A
// wrong kernel is farther away.
const nearFloats = 0.1

// right reports whether an answer is at most so far from the stock runtime's, or near single precision and no farther
// from it than that is: LiteRT's own kernels approximate more where it gives an operator to them and not to XNNPACK.
func (a answer) right(highest float64) bool {
	return a.distance <= highest || a.precise && a.toFloats <= nearFloats && a.toFloats <= a.stockTo
}

func TestAnAnswerIsRightNearTheStockRuntimesOrNearerToSinglePrecision(t *testing.T) {
	for name, c := range map[string]struct {
		answer
		right bool
	}{
		"near":                         {answer{distance: 0.01}, true},
		"far":                          {answer{distance: 0.1}, false},
		"far, and nearer to floats":    {answer{distance: 0.1, precise: true, toFloats: 0.05, stockTo: 0.08}, true},
		"far, and only we near floats": {answer{distance: 1.1, precise: true, toFloats: 0.05, stockTo: 4}, true},
		"far, and farther from floats": {answer{distance: 0.1, precise: true, toFloats: 0.09, stockTo: 0.08}, false},
		"far, and all are far":         {answer{distance: 0.1, precise: true, toFloats: 0.3, stockTo: 0.4}, false},
		"far from the stock's, wrong":  {answer{distance: 4, precise: true, toFloats: 0.3, stockTo: 4}, false},
	} {
		require.Equal(t, c.right, c.answer.right(0.05), name)
	}
}

// shown is what the page has after the model's name.
func (a answer) shown() string {
	switch {
	case a.refused != nil:
		return " (refused)"
	case a.distance == 0:
		return ""
	}
	return strings.NewReplacer("e-0", "e-", "e+00", "").Replace(fmt.Sprintf(" (%.0e)", a.distance))
}

// TestModelsOfUsersAnswerAsTheStockRuntimesDo runs those of testdata, or of the directory that XPWC_ZOO names.
func TestModelsOfUsersAnswerAsTheStockRuntimesDo(t *testing.T) {
	dir := os.Getenv("XPWC_ZOO")
	hasKnown := dir == ""
	if hasKnown {
		dir = "testdata"
	}
	page := bytes.NewBufferString(pageHead)
	for _, f := range formats {
		paths, err := filepath.Glob(filepath.Join(dir, f.name, "*."+f.name))
		require.NoError(t, err)
		answers := map[string]answer{}
		for _, path := range paths {
			name := strings.TrimSuffix(filepath.Base(path), "."+f.name)
			t.Run(f.name+"/"+name, func(t *testing.T) {
				datatype := name[strings.LastIndex(name, "_")+1:]
				require.Contains(t, f.highest, datatype)
				a := run(t, strings.TrimSuffix(path, "."+f.name), "."+f.name)
				answers[name] = a
				if hasKnown {
					family := f.name + "/" + strings.TrimSuffix(name, "_"+datatype)
					require.Equal(t, refused[family], a.refused != nil, "%v", a.refused)
				}
				if a.refused != nil {
					t.Skip(a.refused)
				}
				t.Logf("distance %.2e", a.distance)
				if a.precise {
					t.Logf("from single precision %.2e, and the stock runtime %.2e", a.toFloats, a.stockTo)
				}
				require.True(t, a.right(f.highest[datatype]), "more than %.0e away", f.highest[datatype])
			})
		}
		f.describe(page, answers)
	}
	if !hasKnown {
		return
	}
	path := filepath.Join("..", "..", "..", "docs", "models.md")
	if *update {
		require.NoError(t, os.WriteFile(path, page.Bytes(), 0o644))
	}
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	const hint = "go test -run Users ./internal/tests/zoo -update"
	require.Equal(t, withoutDistances(old), withoutDistances(page.Bytes()), "docs/models.md is not what ran: %s", hint)
}

// withoutDistances returns the words of a page without what differs from one CPU to another.
func withoutDistances(page []byte) []string {
	return strings.Fields(regexp.MustCompile(`\s+\(\d(e-\d+)?\)`).ReplaceAllString(string(page), ""))
}

// run computes a model's outputs in three ways, which must give the same bit for bit.
func run(t *testing.T, stem, extension string) (a answer) {
	t.Helper()
	cache := filepath.Join(t.TempDir(), "packed.xpwc")
	var plain [][]byte
	floats, precise := inFloats(t, stem, extension)
	a.precise = precise
	type start struct{ name, cache string }
	for _, start := range []start{{"no cache", ""}, {"first start", cache}, {"next start", cache}} {
		m, err := modelfile.File{Path: stem + extension}.Open()
		if err != nil {
			return answer{refused: err}
		}
		e, err := instance.New(m, execution.PackedIn(start.cache, nil), 1)
		require.NoError(t, err, start.name)
		for i := range m.Inputs() {
			require.NoError(t, e.Give(i, array(t, fmt.Sprintf("%s.in%d.npy", stem, i)).Data))
		}
		_, err = e.Infer()
		require.NoError(t, err, start.name)
		for i := range m.Outputs() {
			got, shape, err := e.Output(i)
			require.NoError(t, err)
			if start.cache != "" {
				require.Equal(t, plain[i], got, "%s, output %d, bit for bit", start.name, i)
				continue
			}
			plain = append(plain, bytes.Clone(got))
			want := array(t, fmt.Sprintf("%s.out%d.npy", stem, i))
			require.Equal(t, want.Shape, shape, "output %d", i)
			dtype := execution.ElementOf(e.Model.Outputs()[i]).Dtype
			computed, stock := numbers(t, dtype, got), numbers(t, want.Dtype, want.Data)
			a.distance = max(a.distance, distance(t, computed, stock))
			if precise {
				a.toFloats = max(a.toFloats, distance(t, computed, floats(i)))
				a.stockTo = max(a.stockTo, distance(t, stock, floats(i)))
			}
		}
		if e.Cache != nil {
			stats := e.Cache.Stats()
			require.Empty(t, stats.Private, start.name)
			if start.name == "next start" {
				require.Zero(t, stats.Packed.Entries, "the next start packs nothing")
			}
		}
		require.NoError(t, e.Close())
		require.NoError(t, m.Close())
	}
	return a
}

// inFloats returns what the stock runtime answers to the same model in single precision; false if that is not there, or
// is asked something else.
func inFloats(t *testing.T, stem, extension string) (output func(i int) []float64, present bool) {
	twin := stem[:strings.LastIndex(stem, "_")] + "_fp32"
	if _, err := os.Stat(twin + extension); err != nil || twin == stem {
		return nil, false
	}
	inputs, err := filepath.Glob(twin + ".in*.npy")
	require.NoError(t, err)
	for _, path := range inputs {
		asked, err := os.ReadFile(strings.Replace(path, twin, stem, 1))
		if err != nil {
			return nil, false
		}
		twins, err := os.ReadFile(path)
		require.NoError(t, err)
		if !bytes.Equal(asked, twins) {
			return nil, false
		}
	}
	return func(i int) []float64 {
		a := array(t, fmt.Sprintf("%s.out%d.npy", twin, i))
		return numbers(t, a.Dtype, a.Data)
	}, true
}

func array(t *testing.T, path string) safetensors.Tensor {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(file)
	require.NoError(t, err, path)
	return a
}

// numbers converts elements to floats.
func numbers(t *testing.T, d safetensors.Dtype, b []byte) (out []float64) {
	t.Helper()
	le := binary.LittleEndian
	for len(b) > 0 {
		var n float64
		width := 1
		switch d {
		case safetensors.F32:
			n, width = float64(math.Float32frombits(le.Uint32(b))), 4
		case safetensors.F64:
			n, width = math.Float64frombits(le.Uint64(b)), 8
		case safetensors.F16:
			n, width = half.Float64(le.Uint16(b)), 2
		case safetensors.I64:
			n, width = float64(int64(le.Uint64(b))), 8
		case safetensors.I32:
			n, width = float64(int32(le.Uint32(b))), 4
		case safetensors.I16:
			n, width = float64(int16(le.Uint16(b))), 2
		case safetensors.I8:
			n = float64(int8(b[0]))
		case safetensors.U8, safetensors.Bool:
			n = float64(b[0])
		default:
			t.Fatalf("elements of %v", d)
		}
		out, b = append(out, n), b[width:]
	}
	return out
}

// distance is the L2 norm of got - want, relative to want's. It is 0 where both are zeros.
func distance(t *testing.T, got, want []float64) float64 {
	t.Helper()
	require.Len(t, got, len(want))
	var apart, size float64
	for i, w := range want {
		if got[i] != w && !(got[i] != got[i] && w != w) { // infinities may be equal, and both no number
			apart += (got[i] - w) * (got[i] - w)
		}
		size += w * w
	}
	if apart == 0 {
		return 0
	}
	return math.Sqrt(apart / size)
}

const pageHead = `# Models that run

Look here for a model like yours. These are models of ordinary users, as the public exporters write them, with random
weights ([internal/tests/zoo](../internal/tests/zoo/testdata/README.md)). Each runs in Go without a cache, at a first
start and at a next one, with the same outputs bit for bit. These equal the stock runtime's, except where a number
stands: the relative L2 distance from them. ` + "`make test-zoo`" + ` writes this page.

A distance is at most 1e-3 in fp32 and fp16, 5e-2 in dyn and int8, and 2e-3 in int16, of a ` + "`.pte`" + ` 1e-4, 1e-2
and 2e-2; or, if the same model in fp32 is there, at most 0.1 from the stock runtime's for that one, and no farther
than the stock runtime's own is. LiteRT computes HARD_SWISH and UNIDIRECTIONAL_SEQUENCE_LSTM in int8 with approximations
in integers, and quantizes the input of DEPTHWISE_CONV_2D in dyn. Go computes these in single precision: MobileNetV3 and
LSTMs in int8, MobileNet and EfficientNet in dyn may be farther from LiteRT, and are nearer to fp32.
`

// describe lists the format's models by datatype, with the distances above 0.
func (f format) describe(page *bytes.Buffer, answers map[string]answer) {
	fmt.Fprintf(page, "\n## %s\n", f.title)
	for _, d := range f.datatypes {
		var models []string
		for _, name := range slices.Sorted(maps.Keys(answers)) {
			if family, ok := strings.CutSuffix(name, "_"+d); ok {
				models = append(models, family+answers[name].shown())
			}
		}
		writeFilled(page, fmt.Sprintf("**%s**: %s.", d, strings.Join(models, ", ")))
	}
}

// writeFilled writes a paragraph in lines of at most 120 columns, after an empty line.
func writeFilled(page *bytes.Buffer, paragraph string) {
	column := 120
	for _, word := range strings.Fields(paragraph) {
		separator := " "
		if column+1+len(word) > 120 {
			separator, column = "\n", -1
		}
		page.WriteString(separator + word)
		column += 1 + len(word)
	}
	page.WriteString("\n")
}
