package modelfile

import (
	"xpwc"
	"xpwc/executorch"
	"xpwc/models"
)

// Weights are what a model has to pack. Those of a program are of all its methods, also of those that cannot be run
// here.
type Weights interface {
	DataMap() xpwc.DataMap
	Shares(n int) []models.Share
	Close() error
}

// OpenWeights opens the model to pack it. The caller closes it.
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

// Runnable returns what of the weights' model can be run here: the model itself, or methods of a program.
func Runnable(w Weights) []models.Model {
	switch w := w.(type) {
	case models.Model:
		return []models.Model{w}
	case *executorch.Program:
		var out []models.Model
		for _, m := range w.Methods() {
			if m.Runnable() == nil {
				out = append(out, m)
			}
		}
		return out
	}
	return nil
}
