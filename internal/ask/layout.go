// Package ask asks XNNPACK how it packs: which layout is in force here, what it packs of fixed tensors of a family, and
// how many bytes it packs for a geometry. Each is asked once a process.
package ask

import (
	"encoding/hex"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"xpwc/internal/cpu"
	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// Initialize initializes XNNPACK, which keeps the allocator that it is given first. It is called before XNNPACK is
// asked. A package that binds XNNPACK sets it.
var Initialize = func() error { return nil }

// answers are what XNNPACK answered to questions of one kind, each of which is asked once.
type answers[Question comparable, Answer any] struct {
	ask  func(Question) Answer
	memo sync.Map // by question: funcs that return the answer
}

// get returns the answer to a question. Concurrent callers with the same question wait for one answer.
func (a *answers[Question, Answer]) get(q Question) Answer {
	answer, ok := a.memo.Load(q)
	if !ok {
		answer, _ = a.memo.LoadOrStore(q, sync.OnceValue(func() Answer { return a.ask(q) }))
	}
	return answer.(func() Answer)()
}

// ErrNoCgo: this build has no C boundary (CGO_ENABLED=0), so it can inspect cache files but not serve XNNPACK.
var ErrNoCgo = errors.New("built without cgo; build with CGO_ENABLED=1 and a C compiler")

// ErrOtherXNNPACK: the callbacks of xpwc and of XNNPACK would read beyond each other's structs.
var ErrOtherXNNPACK = errors.New("build xpwc with the header of that XNNPACK " +
	"(make lib XNNPACK=/its/prefix; in Go, go clean -cache after a header changed)")

// Layout returns how XNNPACK, which it initializes, packs on this machine. The answer cannot change while the process
// lives; the first takes a millisecond or two. Without cgo it is a layout without a fingerprint. Errors: XNNPACK's.
func Layout() (format.Layout, error) {
	defer answered.Store(true)
	return layout()
}

var layout = sync.OnceValues(func() (format.Layout, error) {
	var s sample
	switch err := probeLayout(&s); {
	case errors.Is(err, ErrNoCgo):
		return format.Layout{Description: err.Error()}, nil
	case err != nil:
		return format.Layout{}, err
	}
	return format.Layout{Fingerprint: s.hash.Sum(), Description: describeLayout()}, nil
})

var answered atomic.Bool

// Answered reports whether Layout returns at once.
func Answered() bool { return answered.Load() }

// Forget has Answered report false again. It is for tests.
func Forget() { answered.Store(false) }

// describeLayout describes, for people, the target of this process' packing: the architecture, the features of the CPU
// that XNNPACK chooses its kernels by, and the beginning of XNNPACK's build identifier. Two descriptions may belong to
// one layout, where those features do not change what is packed.
func describeLayout() string {
	description := cpu.Name()
	if id := BuildIdentifier(); len(id) > 0 {
		description += ", XNNPACK " + hex.EncodeToString(id[:min(len(id), 4)])
	}
	return description
}

// Machine returns a digest of the properties that XNNPACK chooses its kernels by, and of XNNPACK's build. It is zero if
// they are not known. The reader in C computes the same digest.
func Machine() format.Digest { return machine() }

var machine = sync.OnceValue(func() format.Digest {
	id, processor := BuildIdentifier(), processor()
	if len(id) == 0 || len(processor) == 0 {
		return format.Digest{}
	}
	return digest.OfStrings(runtime.GOARCH, string(processor), cpu.Limited(), string(id))
})
