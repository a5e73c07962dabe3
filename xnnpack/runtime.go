package xnnpack

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// RuntimeFlags are options of a runtime (XNN_FLAG_*).
type RuntimeFlags uint32

// Flags of a runtime. Others are taken by their numbers.
const (
	// HintSparseInference lets XNNPACK compute chains of suitable convolutions in NCHW, those with mostly zero
	// weights by sparse kernels. It then reads weights without asking the weights cache first.
	HintSparseInference RuntimeFlags = 1 << iota
	// HintFP16Inference lets XNNPACK compute a float32 model in half precision. Static tensors are then converted
	// into memory of its own, whose addresses the weights cache is given instead of the caller's, and the subgraph
	// makes only one runtime.
	HintFP16Inference
	// ForceFP16Inference is HintFP16Inference, and creation fails where it is impossible.
	ForceFP16Inference
	// BasicProfiling makes Runtime.Profile available.
	BasicProfiling
)

// RuntimeOptions are the options of a runtime; the zero value is valid.
type RuntimeOptions struct {
	// WeightsCache takes the packed weights; nil lets the runtime keep its own. It must outlive the runtime, and must
	// be finalized after NewRuntime and before Setup.
	WeightsCache WeightsCache
	// Workspace holds intermediate values; nil gives the runtime one of its own. It may be closed before the runtime
	// is deleted.
	Workspace *Workspace
	// Threadpool computes; nil computes on the calling thread. It may be closed before the runtime is deleted.
	Threadpool *Threadpool
	// Flags are or-ed together.
	Flags RuntimeFlags
}

// Runtime executes a model. It is used so: ReshapeExternal if an input's shape differs from the subgraph's, Reshape,
// Setup, Invoke. Invoke can be repeated, with other content in the same memory. Other memory takes a Setup; another
// shape takes all of it again. A call that comes too early is an error that matches InvalidState.
type Runtime struct {
	mu        sync.Mutex
	r         cRuntime
	state     runtimeState
	externals map[ValueID]*value
	uses      []*shared
	keep      WeightsCache
	pinned    *runtime.Pinner
	rowDefect *KnownDefect // of the subgraph
}

type runtimeState int

const (
	stateCreated runtimeState = iota // shapes not propagated
	stateReshaped
	stateReady // buffers given
	stateDeleted
)

// NewRuntime packs the weights of s and makes it executable. A nil o is the zero RuntimeOptions. The subgraph can be
// deleted afterwards, or be made into more runtimes. The error matches UnsupportedHardware where this CPU has no kernel
// for a node, InvalidState if s or one of the options is deleted already; of a weights cache that fails XNNPACK reports
// only OutOfMemory. With an error of XNNPACK's, s is deleted. The caller deletes the runtime.
func NewRuntime(s *Subgraph, o *RuntimeOptions) (*Runtime, error) {
	const op = "create runtime"
	if o == nil {
		o = &RuntimeOptions{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted {
		return nil, reject(InvalidState, op, "", "the subgraph is deleted")
	}
	r := &Runtime{externals: map[ValueID]*value{}, keep: o.WeightsCache, uses: []*shared{s.pins},
		pinned: &runtime.Pinner{}, rowDefect: s.rowDefect()}
	var w cWorkspace
	var t cThreadpool
	if o.Workspace != nil {
		w = o.Workspace.w
		r.uses = append(r.uses, &o.Workspace.shared)
	}
	if o.Threadpool != nil {
		t = o.Threadpool.t
		r.uses = append(r.uses, &o.Threadpool.shared)
	}
	if heap, ok := o.WeightsCache.(*HeapWeightsCache); ok {
		r.uses = append(r.uses, &heap.shared)
	}
	for i, u := range r.uses {
		if !u.retain() {
			r.uses = r.uses[:i]
			r.letGo()
			return nil, reject(InvalidState, op, "", "the workspace, thread pool or weights cache is closed already")
		}
	}
	var status Status
	flags := o.Flags
	if s.tabulates {
		flags |= noFusion
	}
	if r.r, status = cNewRuntime(s.g, o.WeightsCache, w, t, flags); status != Success {
		r.letGo()
		// Runtime and subgraph have values that XNNPACK computed before it failed, as tables of elementwise nodes, and
		// each frees them (xnn_create_runtime_v4 of 2026): so this subgraph stays.
		s.deleted = true
		s.pins.Close()
		return nil, check(status, op, fmt.Sprint("subgraph of ", len(s.values), " values"))
	}
	for id, v := range s.values {
		if v != nil && v.external {
			r.externals[ValueID(id)] = v
		}
	}
	return r, nil
}

func (r *Runtime) letGo() {
	for _, u := range r.uses {
		u.release()
	}
	r.uses, r.keep = nil, nil
}

// Delete frees the runtime and lets go of the memory given to Setup. Deleting twice is harmless.
func (r *Runtime) Delete() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stateDeleted {
		return nil
	}
	r.state = stateDeleted
	status := r.r.delete()
	r.pinned.Unpin()
	r.letGo()
	return check(status, "delete runtime", "")
}

// external finds the external value id of a runtime that still exists.
func (r *Runtime) external(op string, id ValueID) (*value, error) {
	if r.state == stateDeleted {
		return nil, deletedRuntime(op)
	}
	v := r.externals[id]
	if v == nil {
		return nil, reject(InvalidParameter, op, describe(id, ""), "not an external value of the runtime")
	}
	return v, nil
}

func deletedRuntime(op string) error { return reject(InvalidState, op, "", "the runtime is deleted") }

// ReshapeExternal gives an input another shape, of the rank it was defined with. Reshape then computes the other
// shapes. XNNPACK does not check the shape: the dimensions that weights are multiplied with (channels) must stay as
// defined, and images must not become smaller than a window that moves over them. The error matches ErrKnownDefect
// where another number of rows could meet a known defect of XNNPACK.
func (r *Runtime) ReshapeExternal(id ValueID, shape []int) error {
	const op = "reshape external value"
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.external(op, id)
	if err != nil {
		return err
	}
	if _, err := v.Type.ByteSize(shape); err != nil {
		return wrap(op, describe(id, v.Name), err)
	}
	if len(shape) != len(v.Shape) {
		return reject(InvalidParameter, op, describe(id, v.Name), "shape %v has another rank than %v", shape, v.Shape)
	}
	if r.rowDefect != nil && !slices.Equal(shape, v.Shape) {
		return wrap(op, describe(id, v.Name), r.rowDefect.error())
	}
	r.state = stateCreated
	return check(r.r.reshapeExternal(id, shape), op, describe(id, v.Name))
}

// ExternalShape returns the current shape of an external value: of an output, what the last Reshape made of it.
func (r *Runtime) ExternalShape(id ValueID) ([]int, error) {
	const op = "get external shape"
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.external(op, id)
	if err != nil {
		return nil, err
	}
	shape, status := r.r.externalShape(id)
	return shape, check(status, op, describe(id, v.Name))
}

// Reshape computes all shapes from the inputs' shapes, and plans the memory. Setup is due afterwards. The error matches
// InvalidParameter if shapes do not fit together.
func (r *Runtime) Reshape() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stateDeleted {
		return deletedRuntime("reshape runtime")
	}
	r.state = stateCreated
	if err := check(r.r.reshape(), "reshape runtime", ""); err != nil {
		return err
	}
	r.state = stateReshaped
	return nil
}

// Setup gives the runtime the memory of all its external values, dense and row by row. Each slice must be long enough
// for its value's shape after Reshape (ExternalShape, Datatype.ByteSize), else the error matches InvalidParameter.
// The runtime keeps the slices until the next Setup or Delete; those on the Go heap are pinned meanwhile. XNNPACK may
// read, not write, ExtraBytes past the end of an input: use a Buffer, which has them.
func (r *Runtime) Setup(values map[ValueID][]byte) error {
	const op = "set up runtime"
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case stateDeleted:
		return deletedRuntime(op)
	case stateCreated:
		return reject(InvalidState, op, "", "the runtime must be reshaped first")
	}
	for id := range values {
		if _, err := r.external(op, id); err != nil {
			return err
		}
	}
	ids := slices.Sorted(maps.Keys(r.externals))
	buffers := make([][]byte, len(ids))
	for i, id := range ids {
		v := r.externals[id]
		buffer, ok := values[id]
		if !ok {
			return reject(InvalidParameter, op, describe(id, v.Name), "no memory is given for this external value")
		}
		shape, status := r.r.externalShape(id)
		if status != Success {
			return check(status, op, describe(id, v.Name))
		}
		need, err := v.Type.ByteSize(shape)
		if err != nil {
			return wrap(op, describe(id, v.Name), err)
		}
		if len(buffer) < need {
			return reject(InvalidParameter, op, describe(id, v.Name), "%d bytes are given, %v %v takes %d",
				len(buffer), v.Type, shape, need)
		}
		buffers[i] = buffer
	}
	// The old buffers stay pinned until XNNPACK has let go of them.
	old := r.pinned
	r.pinned = &runtime.Pinner{}
	status := r.r.setup(ids, buffers, r.pinned)
	old.Unpin()
	if status != Success {
		r.state = stateReshaped
		return check(status, op, "")
	}
	r.state = stateReady
	return nil
}

// Invoke computes the outputs from the inputs, in the memory given to Setup, and returns when it is done. The memory
// must not be written to meanwhile.
func (r *Runtime) Invoke() error {
	const op = "invoke runtime"
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case stateDeleted:
		return deletedRuntime(op)
	case stateReady:
		return check(r.r.invoke(), op, "")
	}
	return reject(InvalidState, op, "", "the runtime must be reshaped and set up first")
}

// OperatorTiming is how long one operator of the model took.
type OperatorTiming struct {
	Name string // the operator's type and, for some, its kernel's
	Time time.Duration
}

// Profile returns the operators in the order of execution with their times in the last Invoke, to the microsecond.
// The runtime must have been created with BasicProfiling, else the error matches InvalidState.
func (r *Runtime) Profile() ([]OperatorTiming, error) {
	const op = "profile runtime"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stateDeleted {
		return nil, deletedRuntime(op)
	}
	names, times, status := r.r.profile()
	if status != Success {
		return nil, check(status, op, "")
	}
	list := make([]OperatorTiming, len(times))
	for i := range list {
		name, rest, _ := bytes.Cut(names, []byte{0})
		list[i] = OperatorTiming{string(name), time.Duration(times[i]) * time.Microsecond}
		names = rest
	}
	return list, nil
}
