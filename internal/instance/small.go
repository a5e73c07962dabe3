package instance

import (
	"slices"

	"xpwc/models"
)

// A smallModel is a resizable model for small inputs. The first runtimes are created of its stages: a runtime of
// XNNPACK has memory for the shapes that its subgraph was defined with, and for larger ones once they are in use. The
// zero value has no stages.
type smallModel struct {
	model      models.Model
	stages     []models.Stage
	between    []models.Buffer
	structures []string // of the stages; "" if it is no subgraph, or was taken
}

// newSmallModel plans a dynamic model for the smallest inputs that suit it. It asks first whether all dimensions may be
// small, since the dynamic ones take several plans to find.
func newSmallModel(m models.Resizable) *smallModel {
	dims := make([][]int, len(m.Inputs()))
	for i, v := range m.Inputs() {
		for d := range v.Shape {
			if v.Dynamic {
				dims[i] = append(dims[i], d)
			}
		}
	}
	if resized, err := m.Resized(shrunk(m, dims, 1)); err == nil {
		return smallModelOf(resized)
	}
	dims = m.DynamicDims()
	for _, size := range []int{1, 8, 64} {
		if resized, err := m.Resized(shrunk(m, dims, size)); err == nil {
			return smallModelOf(resized)
		}
	}
	return &smallModel{}
}

// shrunk returns the shapes of the inputs with some dimensions of at most a size.
func shrunk(m models.Model, dims [][]int, size int) (shapes [][]int) {
	for i, v := range m.Inputs() {
		shape := slices.Clone(v.Shape)
		for _, d := range dims[i] {
			shape[d] = min(size, shape[d])
		}
		shapes = append(shapes, shape)
	}
	return shapes
}

func smallModelOf(m models.Model) *smallModel {
	s := &smallModel{model: m}
	s.stages, s.between = models.StagesOf(m)
	for _, stage := range s.stages {
		structure := structureOf(stage)
		if stage.Subgraph != nil && structure == "" {
			return &smallModel{}
		}
		s.structures = append(s.structures, structure)
	}
	return s
}

// structureOf returns the structure of a stage, or "" if no other plan can use its runtime.
func structureOf(s models.Stage) string {
	if s.Subgraph == nil || s.Structure == nil {
		return ""
	}
	return s.Structure()
}

// take returns the small model with its stage of a structure, or else the model and the stage that are given. A stage
// is taken once.
func (s *smallModel) take(structure string, m models.Model, stage models.Stage) (models.Model, models.Stage) {
	i := slices.Index(s.structures, structure)
	if structure == "" || i < 0 {
		return m, stage
	}
	s.structures[i] = ""
	return s.model, s.stages[i]
}

// shared reports whether all subgraphs were taken.
func (s *smallModel) shared() bool {
	return s.model != nil && !slices.ContainsFunc(s.structures, func(structure string) bool { return structure != "" })
}

// keepSmall keeps the plan of the small model, if it needs no other runtimes than the present plan: inputs of one row
// are frequent.
func (e *Instance) keepSmall(s *smallModel) error {
	if !s.shared() {
		return nil
	}
	if err := e.growBetween(s.between); err != nil {
		return err
	}
	p, err := e.planOf(s.model, s.stages, &smallModel{})
	if err == nil {
		e.plans = append(e.plans, p)
	}
	return err
}
