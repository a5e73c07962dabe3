package modelfile

import (
	"xpwc"
	"xpwc/models"
	"xpwc/models/executorch"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// Weights are what a model has to pack. A program's are of all its methods, including methods that cannot be run
// here.
type Weights interface {
	DataMap() xpwc.DataMap
	WeightBytes() int64
	Close() error
}

// OpenWeights opens the model to pack it. Of a .tflite with several signatures it is only one. The caller closes it.
func (f File) OpenWeights() (Weights, error) {
	if !f.Program() {
		return f.Open()
	}
	p, err := f.OpenProgram()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// OpenAllWeights opens all that the models have to pack: of a .tflite each signature by itself. The caller closes them,
// also with an error.
func (f File) OpenAllWeights() (weights []Weights, err error) {
	models, err := f.Models()
	if err != nil {
		return nil, err
	}
	for _, f := range models {
		w, err := f.OpenWeights()
		if err != nil {
			return weights, err
		}
		weights = append(weights, w)
		if m, ok := w.(*tflite.Model); ok && len(m.Signatures()) > 1 {
			for _, f.Method = range m.Signatures() {
				w, err := f.OpenWeights()
				if err != nil {
					return weights, err
				}
				weights = append(weights, w)
			}
		}
	}
	return weights, nil
}

// DataMap returns the constants of the subgraphs that Subgraphs makes.
func DataMap(w Weights, stock bool) xpwc.DataMap {
	if p, ok := w.(*executorch.Program); ok && stock {
		return p.DelegateData()
	}
	return w.DataMap()
}

// Subgraphs returns what makes the subgraphs whose runtimes pack all of the weights, for [models.Pack]. For the stock
// runtime of ExecuTorch these are the delegates of a program.
func Subgraphs(w Weights, stock bool) []func(models.Loader) (*xnnpack.Subgraph, error) {
	if p, ok := w.(*executorch.Program); ok && stock {
		return p.DelegateWeights()
	} else if ok {
		return p.Weights()
	}
	return models.SubgraphsOf(w.(models.Model))
}
