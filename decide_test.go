package xpwc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/writer"
)

// rightOne is an entry of the file that answers a look-up which says all.
func rightOne(change ...func(*candidate)) candidate {
	c := candidate{stamped: true, content: yes, seed: true, size: yes}
	for _, do := range change {
		do(&c)
	}
	return c
}

func TestALookUpIsAnsweredWithWhatXNNPACKWouldPack(t *testing.T) {
	said := asking{given: true}
	unstamped := func(content fact) func(*candidate) {
		return func(c *candidate) { c.stamped, c.content = false, content }
	}
	nobody := verdict{hit: -1}
	packAndCompare := func(why refusal) verdict { return verdict{hit: -1, same: true, refusal: why} }
	for name, is := range map[string]struct {
		asking     asking
		candidates []candidate
		want       verdict
	}{
		"nothing is stored": {said, nil, nobody},
		"the stamps agree":  {said, []candidate{rightOne()}, verdict{hit: 0, same: true}},
		"the content is not known": {said, []candidate{rightOne(unstamped(unknown))},
			verdict{hit: -1, lacks: itsContent}},
		"it is of other content": {said, []candidate{rightOne(unstamped(no))},
			verdict{hit: -1, refusal: refuseContent}},
		"it is of the same content": {said, []candidate{rightOne(unstamped(yes))}, verdict{hit: 0, same: true}},
		"a stamp spares the reading": {said, []candidate{rightOne(unstamped(unknown)), rightOne()},
			verdict{hit: 1, same: true}},
		"a stamped one does not fit, the next is read": {said, []candidate{
			rightOne(func(c *candidate) { c.variant = true }), rightOne(unstamped(unknown)),
		}, verdict{hit: -1, lacks: itsContent, of: 1}},
		"a host that knows too little": {asking{given: true, compare: true}, []candidate{rightOne()},
			packAndCompare(refuseCompare)},
		"one of several": {said, []candidate{rightOne(func(c *candidate) { c.variant = true })},
			packAndCompare(refuseVariant)},
		"another seed": {said, []candidate{rightOne(func(c *candidate) { c.seed = false })},
			packAndCompare(refuseSeed)},
		"a second use": {asking{given: true, again: true}, []candidate{rightOne()}, packAndCompare(refuseRepeated)},
		"a second use of what is tied": {asking{given: true, again: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, verdict{hit: 0, same: true}},
		"a second use of what is tied, by a host that says nothing": {asking{again: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, packAndCompare(refuseNoPacking)},
		"several ways of packing": {asking{given: true, ambiguous: true}, []candidate{rightOne()},
			packAndCompare(refuseAmbiguous)},
		"several ways of packing that were seen to be one": {asking{given: true, ambiguous: true},
			[]candidate{rightOne(func(c *candidate) { c.tied = true })}, verdict{hit: 0, same: true}},
		"the size is not known": {said, []candidate{rightOne(func(c *candidate) { c.size = unknown })},
			verdict{hit: -1, lacks: itsSize}},
		"the size is wrong": {said, []candidate{rightOne(func(c *candidate) { c.size = no })},
			packAndCompare(refuseUnsized)},
		"the sum is asked for": {asking{given: true, verify: VerifyOnUse}, []candidate{rightOne()},
			verdict{hit: -1, lacks: itsSum}},
		"it was verified": {asking{given: true, verify: VerifyOnUse},
			[]candidate{rightOne(func(c *candidate) { c.verified = true })}, verdict{hit: 0, same: true}},
	} {
		require.Equal(t, is.want, decide(is.asking, is.candidates), name)
	}
}

func TestWhatWasPackedIsKeptBesideOthersOnlyIfItIsAnother(t *testing.T) {
	sameContent := rival{content: true, seed: true, sound: true}
	with := func(change func(*rival)) rival {
		r := sameContent
		change(&r)
		return r
	}
	equal := with(func(r *rival) { r.equal = true })
	for name, is := range map[string]struct {
		rivals []rival
		want   []writer.Lot
	}{
		"nothing is stored":               {nil, []writer.Lot{}},
		"equal bytes":                     {[]rival{equal}, []writer.Lot{writer.Taken}},
		"equal bytes of other content":    {[]rival{{equal: true}}, []writer.Lot{writer.Taken}},
		"other bytes of other content":    {[]rival{{sound: true, seed: true}}, []writer.Lot{writer.Stays}},
		"other bytes under another seed":  {[]rival{{sound: true, content: true}}, []writer.Lot{writer.Stays}},
		"other bytes of the same content": {[]rival{sameContent}, []writer.Lot{writer.Varies}},
		"bytes that are not what they were": {[]rival{with(func(r *rival) { r.sound = false })},
			[]writer.Lot{writer.Damaged}},
		"a size that no operator reads": {[]rival{with(func(r *rival) { r.wrongSize = true })},
			[]writer.Lot{writer.Damaged}},
		"one is equal, the other stays": {[]rival{sameContent, equal},
			[]writer.Lot{writer.Stays, writer.Taken}},
		"of two that are equal, the first": {[]rival{equal, equal}, []writer.Lot{writer.Taken, writer.Stays}},
	} {
		require.Equal(t, is.want, compare(is.rivals), name)
	}
}
