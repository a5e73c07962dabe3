package tflite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// lstm is an LSTM as its definition has it: of n units, for inputs of in numbers.
type lstm struct {
	in, n, projected    int // projected is 0 without a projection
	coupled, peephole   bool
	cellClip, clip      float32
	h, c                []float64
	weights, recurrents [4][]float32 // of the gates
	biases, peepholes   [4][]float32
	projection          []float32
}

func newLSTM(l lstm) *lstm {
	i := 0
	numbers := func(n int) []float32 {
		i += n
		return wave(i)[i-n:]
	}
	last := l.n
	if l.projected > 0 {
		last, l.projection = l.projected, numbers(l.projected*l.n)
	}
	for g := range 4 {
		if g == inputGate && l.coupled {
			continue
		}
		l.weights[g], l.recurrents[g], l.biases[g] = numbers(l.n*l.in), numbers(l.n*last), numbers(l.n)
		if l.peephole && g != cellGate {
			l.peepholes[g] = numbers(l.n)
		}
	}
	l.h, l.c = make([]float64, last), make([]float64, l.n)
	return &l
}

// model is the operator for some steps.
func (l *lstm) model(steps int, byTime bool) blueprint {
	shape := []int{1, steps, l.in}
	if byTime {
		shape = []int{steps, 1, l.in}
	}
	last := len(l.h)
	m := blueprint{tensors: []blueTensor{floats("x", shape), floats("y", nil), floats("h", []int{1, last}),
		floats("c", []int{1, l.n})}, inputs: []int{0}, outputs: []int{1}}
	operands := make([]int, lstmOperands)
	for i := range operands {
		operands[i] = absent
	}
	operands[lstmInput], operands[lstmState], operands[lstmCell] = 0, 2, 3
	add := func(tensor int, values []float32, shape ...int) {
		if values != nil {
			operands[tensor] = len(m.tensors)
			m.tensors = append(m.tensors, floats("", shape, values...))
		}
	}
	for g := range 4 {
		add(lstmWeights+g, l.weights[g], l.n, l.in)
		add(lstmRecurrent+g, l.recurrents[g], l.n, last)
		add(lstmBias+g, l.biases[g], l.n)
		if g != cellGate {
			add(lstmPeephole+min(g, 2), l.peepholes[g], l.n)
		}
	}
	add(lstmProjection, l.projection, last, l.n)
	m.ops = []blueOp{{code: "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs: operands, outputs: []int{1}, options: fields{
		lstmActivation: byte(activationTanh), lstmCellClip: l.cellClip, lstmProjectionClip: l.clip,
		lstmTimeMajor: byTime}}}
	return m
}

func product(w []float32, x []float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		for k, v := range x {
			out[i] += float64(w[i*len(x)+k]) * v
		}
	}
	return out
}

// step computes the next output.
func (l *lstm) step(x []float64) []float64 {
	clip := func(v []float64, limit float32) {
		for i := range v {
			if limit > 0 {
				v[i] = max(min(v[i], float64(limit)), -float64(limit))
			}
		}
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	gate := func(g int) []float64 {
		sum, recurrent := product(l.weights[g], x, l.n), product(l.recurrents[g], l.h, l.n)
		for i := range sum {
			sum[i] += recurrent[i] + float64(l.biases[g][i])
			if l.peepholes[g] != nil {
				sum[i] += float64(l.peepholes[g][i]) * l.c[i]
			}
		}
		return sum
	}
	forget, candidate := gate(forgetGate), gate(cellGate)
	var input []float64
	if !l.coupled {
		input = gate(inputGate)
	}
	next := make([]float64, l.n)
	for i := range next {
		f := sigmoid(forget[i])
		update := 1 - f
		if !l.coupled {
			update = sigmoid(input[i])
		}
		next[i] = f*l.c[i] + update*math.Tanh(candidate[i])
	}
	clip(next, l.cellClip)
	l.c = next
	out := gate(outputGate)
	for i := range out {
		out[i] = sigmoid(out[i]) * math.Tanh(l.c[i])
	}
	if l.projection != nil {
		out = product(l.projection, out, l.projected)
		clip(out, l.clip)
	}
	l.h = out
	return out
}

func TestASequenceLSTMComputesItsDefinition(t *testing.T) {
	for name, l := range map[string]lstm{
		"plain":                 {in: 3, n: 5},
		"coupled gates":         {in: 3, n: 5, coupled: true},
		"peepholes and clipped": {in: 3, n: 5, peephole: true, cellClip: 0.25},
		"projected":             {in: 3, n: 5, projected: 2, clip: 0.125},
	} {
		t.Run(name, func(t *testing.T) {
			for _, byTime := range []bool{false, true} {
				cell := newLSTM(l)
				const steps = 4
				m := cell.model(steps, byTime)
				opened := openModel(t, save(t, m.bytes()))
				x := wave(steps * l.in)
				var want []float64
				for s := range steps {
					var row []float64
					for _, v := range x[s*l.in:][:l.in] {
						row = append(row, float64(v))
					}
					want = append(want, cell.step(row)...)
				}
				got := modeltest.Run(t, opened, x)[0]
				require.Len(t, got, len(want))
				for i, w := range want {
					require.InDelta(t, w, got[i], 1e-5)
				}
			}
		})
	}
}

func TestASequenceLSTMKeepsItsStateUntilItIsReset(t *testing.T) {
	l := newLSTM(lstm{in: 3, n: 5})
	x := wave(4 * 3)
	whole, half := l.model(4, false), l.model(2, false)
	want := modeltest.Run(t, openModel(t, save(t, whole.bytes())), x)[0]
	r, err := Load(save(t, half.bytes()), "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	run := func(x []float32) []float32 {
		out, err := r.Run(t.Context(), x)
		require.NoError(t, err)
		return append([]float32{}, out[0].Data.([]float32)...)
	}
	first := run(x[:6])
	require.InDeltaSlice(t, want, append(append([]float32{}, first...), run(x[6:])...), 1e-6)
	require.NoError(t, r.Reset(t.Context()))
	require.Equal(t, first, run(x[:6]))
}

func TestASequenceLSTMThatCannotRunIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*blueprint)
		want   error
		text   string
	}{
		"an operand less": {func(m *blueprint) { m.ops[0].inputs = m.ops[0].inputs[:23] }, ErrMalformed,
			"23 inputs"},
		"normalization": {func(m *blueprint) { m.ops[0].inputs[lstmNorm] = 2 }, ErrUnsupported,
			"layer normalization"},
		"a diagonal":     {func(m *blueprint) { m.ops[0].options[lstmDiagonal] = true }, ErrUnsupported, "a diagonal"},
		"two dimensions": {func(m *blueprint) { m.tensors[0].shape = []int{4, 3} }, ErrMalformed, "of shape [4 3]"},
		"no forget gate": {func(m *blueprint) { m.ops[0].inputs[lstmWeights+1] = absent }, ErrMalformed, "a gate"},
		"no recurrent weights": {func(m *blueprint) { m.ops[0].inputs[lstmRecurrent+2] = absent }, ErrMalformed,
			"missing"},
		"weights of other size": {func(m *blueprint) { m.tensors[0].shape[2] = 4 }, ErrMalformed,
			"for 3 input channels"},
		"a new activation": {func(m *blueprint) { m.ops[0].options[lstmActivation] = byte(1) }, ErrUnsupported,
			"activation 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newLSTM(lstm{in: 3, n: 5}).model(4, false)
			c.change(&m)
			_, err := load(m.bytes(), Options{})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}
