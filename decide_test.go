package xpwc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/ask"
	"xpwc/internal/writer"
	"xpwc/xnnpack/packing"
)

// rightOne is an entry of the file that answers a look-up which says all.
func rightOne(change ...func(*candidate)) candidate {
	c := candidate{stamped: true, content: confirmed, seed: true, size: confirmed}
	for _, do := range change {
		do(&c)
	}
	return c
}

func TestALookUpIsAnsweredWithWhatXNNPACKWouldPack(t *testing.T) {
	said := request{described: true}
	unstamped := func(content fact) func(*candidate) {
		return func(c *candidate) { c.stamped, c.content = false, content }
	}
	nobody := verdict{hit: -1}
	packAndCompare := func(cause refusal) verdict { return verdict{hit: -1, contentMatch: true, refusal: cause} }
	for name, c := range map[string]struct {
		asking     request
		candidates []candidate
		want       verdict
	}{
		"nothing is stored": {said, nil, nobody},
		"the stamps agree":  {said, []candidate{rightOne()}, verdict{hit: 0, contentMatch: true}},
		"the content is not known": {said, []candidate{rightOne(unstamped(unknown))},
			verdict{hit: -1, need: needContent}},
		"it is of other content": {said, []candidate{rightOne(unstamped(refuted))},
			verdict{hit: -1, refusal: refuseContent}},
		"it is of the same content": {
			said, []candidate{rightOne(unstamped(confirmed))}, verdict{hit: 0, contentMatch: true},
		},
		"a stamp spares the reading": {said, []candidate{rightOne(unstamped(unknown)), rightOne()},
			verdict{hit: 1, contentMatch: true}},
		"a stamped one does not fit, the next is read": {said, []candidate{
			rightOne(func(c *candidate) { c.variant = true }), rightOne(unstamped(unknown)),
		}, verdict{hit: -1, need: needContent, candidate: 1}},
		"a host that knows too little": {request{described: true, compare: true}, []candidate{rightOne()},
			packAndCompare(refuseCompare)},
		"one of several": {said, []candidate{rightOne(func(c *candidate) { c.variant = true })},
			packAndCompare(refuseVariant)},
		"another seed": {said, []candidate{rightOne(func(c *candidate) { c.seed = false })},
			packAndCompare(refuseSeed)},
		"a second use": {
			request{described: true, repeated: true}, []candidate{rightOne()}, packAndCompare(refuseRepeated),
		},
		"a second use of what is tied": {request{described: true, repeated: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, verdict{hit: 0, contentMatch: true}},
		"a second use of what is tied, by a host that says nothing": {request{repeated: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, packAndCompare(refuseNoPacking)},
		"several ways of packing": {request{described: true, ambiguous: true}, []candidate{rightOne()},
			packAndCompare(refuseAmbiguous)},
		"several ways of packing that were seen to be one": {request{described: true, ambiguous: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, verdict{hit: 0, contentMatch: true}},
		"the size is not known": {said, []candidate{rightOne(func(c *candidate) { c.size = unknown })},
			verdict{hit: -1, need: needSize}},
		"the size is wrong": {said, []candidate{rightOne(func(c *candidate) { c.size = refuted })},
			packAndCompare(refuseUnsized)},
		"the sum is asked for": {request{described: true, verify: VerifyOnUse}, []candidate{rightOne()},
			verdict{hit: -1, need: needSum}},
		"it was verified": {request{described: true, verify: VerifyOnUse},
			[]candidate{rightOne(func(c *candidate) { c.verified = true })}, verdict{hit: 0, contentMatch: true}},
	} {
		require.Equal(t, c.want, decide(c.asking, c.candidates), name)
	}
}

func TestWhatWasPackedIsKeptBesideOthersOnlyIfItIsAnother(t *testing.T) {
	sameContent := stored{content: true, seed: true, sound: true}
	entry := func(change func(*stored)) stored {
		r := sameContent
		change(&r)
		return r
	}
	equalBytes := entry(func(r *stored) { r.equalBytes = true })
	for name, c := range map[string]struct {
		rivals []stored
		want   []writer.Action
	}{
		"nothing is stored":               {nil, []writer.Action{}},
		"equal bytes":                     {[]stored{equalBytes}, []writer.Action{writer.Reuse}},
		"equal bytes of other content":    {[]stored{{equalBytes: true}}, []writer.Action{writer.Reuse}},
		"other bytes of other content":    {[]stored{{sound: true, seed: true}}, []writer.Action{writer.Ignore}},
		"other bytes under another seed":  {[]stored{{sound: true, content: true}}, []writer.Action{writer.Ignore}},
		"other bytes of the same content": {[]stored{sameContent}, []writer.Action{writer.MarkVariant}},
		"bytes that are not what they were": {[]stored{entry(func(r *stored) { r.sound = false })},
			[]writer.Action{writer.MarkDamaged}},
		"a size that no operator reads": {[]stored{entry(func(r *stored) { r.wrongSize = true })},
			[]writer.Action{writer.MarkDamaged}},
		"one is equal, the other stays": {[]stored{sameContent, equalBytes},
			[]writer.Action{writer.Ignore, writer.Reuse}},
		"of two that are equal, the first": {[]stored{equalBytes, equalBytes}, []writer.Action{writer.Reuse,
			writer.Ignore}},
	} {
		require.Equal(t, c.want, compare(c.rivals), name)
	}
}

// A question takes memory in proportion to the kernel, some gigabytes for these.
func TestXNNPACKIsNotAskedAboutKernelsThatTheTensorHasNoRoomFor(t *testing.T) {
	kernel := packing.Operand{Type: 1}
	for _, id := range []packing.Identity{
		{Operator: packing.FullyConnected, Shape: []int{1 << 28, 1}, Input: kernel, Kernel: kernel, Output: kernel},
		{Operator: packing.FullyConnected, Shape: []int{1, 1 << 28}, Input: kernel, Kernel: kernel, Output: kernel},
		{Operator: packing.FullyConnected, Shape: []int{1 << 28, 1}, Input: kernel, Kernel: packing.Operand{Type: 99},
			Output: kernel},
	} {
		src := &source{content: make([]byte, 64)}
		src.addIdentity(packingIdentity{id.Digest(), id.Geometry()})
		w := &weight{kernel: src}
		err := w.checkSize(make([]byte, 128))
		if id.Geometry().LeastBytes() > 0 {
			require.ErrorIs(t, err, ErrDamaged)
		}
		g := id.Geometry()
		require.False(t, ask.Asked(g), "%v", id.Shape)
	}
}
