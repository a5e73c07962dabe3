package bench

import (
	"xpwc"
	"xpwc/internal/bench/llama"
	"xpwc/internal/modelfile"
	"xpwc/xnnpack"
)

type llamaModel struct{ *llama.Model }

func openLlama(stack llama.Stack, path string) (modelfile.Model, error) {
	m, err := stack.Open(path)
	if err != nil {
		return nil, err
	}
	return llamaModel{m}, nil
}

func (m llamaModel) Inputs() []modelfile.Value {
	return []modelfile.Value{{ID: llama.Input, Name: "input", Shape: []int{1, llama.Width}}}
}

func (m llamaModel) Outputs() []modelfile.Value {
	return []modelfile.Value{{ID: llama.Output, Name: "output", Shape: []int{1, llama.Width}}}
}

func (m llamaModel) DataMap() xpwc.DataMap       { return m.Model.DataMap() }
func (m llamaModel) NewLoader() modelfile.Memory { return uncachedLlama{m.Model.NewLoader()} }

func (m llamaModel) Subgraph(l modelfile.Loader) (*xnnpack.Subgraph, error) {
	return m.Model.Subgraph(l)
}

type uncachedLlama struct{ *llama.Memory }

func (uncachedLlama) Close() error { return nil }
