package inference

import (
	"errors"

	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A version is a model that a Runner computes with, until a Reload puts another in its place.
type version struct {
	model           models.Model
	inputs, outputs []models.Value

	// Of what follows Runner.mu is locked.
	instances, free []*instance.Instance
	retired         chan struct{} // closed when nothing computes with it any more; nil as long as it is in force
}

// load makes the instances of a version, and closes the model if it cannot.
func (r *Runner) load(m models.Model) (v *version, err error) {
	v = &version{model: m}
	loaded := false
	defer func() {
		if !loaded { // also after a panic of the model's
			err = errors.Join(err, v.close())
		}
	}()
	v.inputs, v.outputs = m.Inputs(), m.Outputs()
	for range r.options.Instances {
		i, err := instance.New(m, instance.PackedIn(r.cache), r.options.Threads)
		if err != nil {
			return v, err
		}
		v.instances = append(v.instances, i)
		if i.Stateful() && r.options.Instances > 1 {
			return v, ErrStates
		}
		if i.Dynamic() {
			continue // the memory is that of the shapes in use
		}
		if err := i.Prepare(); err != nil {
			return v, err
		}
	}
	v.free = append(v.free, v.instances...)
	loaded = true
	return v, nil
}

// retireLocked has the version not be used by further Runs.
func (v *version) retireLocked() {
	v.retired = make(chan struct{})
	v.endLocked()
}

// endLocked notes that the version's last Run has ended, if it has been retired.
func (v *version) endLocked() {
	if v.retired != nil && len(v.free) == len(v.instances) {
		close(v.retired)
	}
}

// end waits for the Runs of a retired version, and closes it.
func (v *version) end() error {
	<-v.retired
	return v.close()
}

func (v *version) close() error {
	var errs []error
	for _, i := range v.instances {
		errs = append(errs, i.Close())
	}
	xnnpack.GiveBack()
	return errors.Join(append(errs, v.model.Close())...)
}
