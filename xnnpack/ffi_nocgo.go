//go:build !cgo

package xnnpack

// Without cgo there is no XNNPACK: Initialize fails, and what comes after it is never reached.

import (
	"runtime"
	"unsafe"
)

// Available reports whether this program has XNNPACK: a program that was built without cgo has not.
const Available = false

type (
	pinned        struct{ pinner *runtime.Pinner }
	cMemory       struct{ bytes []byte }
	cSubgraph     struct{}
	cRuntime      struct{}
	cWorkspace    struct{}
	cThreadpool   struct{}
	cWeightsCache struct{}
)

func cInitialize() Status                                           { return NoCgo }
func cHasApproximateGELU() bool                                     { return false }
func cBuildIdentifier() []byte                                      { return nil }
func cHasCPULevel(int) bool                                         { return false }
func cLimitCPU(int)                                                 {}
func cKnowsCPU() bool                                               { return false }
func cInitializedWhenLoaded() bool                                  { return false }
func cWidenF16(int, []byte, []byte) Status                          { return NoCgo }
func newPinned() pinned                                             { return pinned{} }
func (pinned) release()                                             {}
func cAllocate(int) (cMemory, bool)                                 { return cMemory{}, false }
func (cMemory) free()                                               {}
func (cMemory) pointer() unsafe.Pointer                             { return nil }
func view[T Number](cMemory) []T                                    { return nil }
func cNewSubgraph(int) (cSubgraph, Status)                          { return cSubgraph{}, NoCgo }
func (cSubgraph) delete()                                           {}
func (cSubgraph) define(*Tensor, ValueID, uint32) (ValueID, Status) { return 0, NoCgo }
func (cSubgraph) add(Node, []ValueID, []*value) Status              { return NoCgo }
func cNewRuntime(cSubgraph, WeightsCache, cWorkspace, cThreadpool, RuntimeFlags) (cRuntime, Status) {
	return cRuntime{}, NoCgo
}
func (cRuntime) delete() Status                                    { return NoCgo }
func (cRuntime) reshapeExternal(ValueID, []int) Status             { return NoCgo }
func (cRuntime) externalShape(ValueID) ([]int, Status)             { return nil, NoCgo }
func (cRuntime) reshape() Status                                   { return NoCgo }
func (cRuntime) setup([]ValueID, [][]byte, *runtime.Pinner) Status { return NoCgo }
func (cRuntime) invoke() Status                                    { return NoCgo }
func (cRuntime) profile() ([]byte, []uint64, Status)               { return nil, nil, NoCgo }
func cNewWorkspace() (cWorkspace, Status)                          { return cWorkspace{}, NoCgo }
func (cWorkspace) release()                                        {}
func cGiveBack()                                                   {}
func cNewThreadpool(int) (cThreadpool, bool)                       { return cThreadpool{}, false }
func (cThreadpool) threads() int                                   { return 0 }
func (cThreadpool) destroy()                                       {}
func cNewWeightsCache() (cWeightsCache, Status)                    { return cWeightsCache{}, NoCgo }
func (cWeightsCache) finalize() Status                             { return NoCgo }
func (cWeightsCache) delete()                                      {}

// Provider implements WeightsCache.
func (*HeapWeightsCache) Provider() unsafe.Pointer { return nil }
