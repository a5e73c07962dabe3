package xpwc

import "xpwc/internal/writer"

// The functions of this file decide which entry answers a look-up, and which entry keeps a packing. They are pure: they
// read facts, take no lock and change nothing.

// A fact is a condition that may not be known yet.
type fact uint8

const (
	unknown fact = iota // it can be found out
	confirmed
	refuted
)

func factOf(b bool) fact {
	if b {
		return confirmed
	}
	return refuted
}

// A request has the facts of a look-up that its key lacks.
type request struct {
	compare   bool   // stored entries are not trusted: see weight.trusted
	repeated  bool   // the session used an entry for the same look-up before
	described bool   // the host gave a packing identity
	ambiguous bool   // its packing identities are of several ways of packing
	verify    Verify // Options.Verify
}

// A candidate has the facts of an entry under the key of a look-up.
type candidate struct {
	stamped  bool // the stamps of its sources are those of the session's
	content  fact // it was packed from the session's content
	seed     bool // its bytes are what XNNPACK packs under the seed of the look-up
	variant  bool // one of several payloads under its key, which does not distinguish them
	tied     bool // all uses of its key were packed into its bytes
	size     fact // it has as many bytes as the operator reads
	verified bool // its bytes were compared, or are in no generation on the disk
	sound    fact // its bytes have its checksum; needed only with VerifyOnUse
}

// A verdict is the decision on a look-up, or the fact that it needs first.
type verdict struct {
	hit          int     // the candidate that answers it, or -1
	contentMatch bool    // there is one of the same content: what will be packed is to be compared with it
	need         need    // what is to be found out, of candidate of; then it is decided again
	refusal      refusal // of the first candidate that could have answered it
	candidate    int
}

// A refusal is why a candidate does not answer a look-up: a number, since a look-up that hits passes it around.
type refusal uint8

const (
	noRefusal refusal = iota
	refuseCompare
	refuseNoPacking
	refuseVariant
	refuseSeed
	refuseRepeated
	refuseAmbiguous
	refuseUnsized
	refuseDamaged
	refuseContent
)

// refusals has the reason for each refusal.
var refusals = [...]Reason{
	"", ReasonCompare, ReasonNoPacking, ReasonVariant, ReasonSeed, ReasonRepeated, ReasonAmbiguous, ReasonUnsized,
	ReasonDamaged, ReasonContent,
}

// A need is a fact that a decision lacks.
type need uint8

const (
	needNothing need = iota
	needContent
	needSize
	needSum
)

// decide answers a look-up. Stamps come first: one name may be in several models, and the digest that distinguishes
// them reads the whole tensor.
func decide(a request, candidates []candidate) verdict {
	v := verdict{hit: -1}
	differs := false // the content of a candidate
	for _, stamped := range []bool{true, false} {
		for i := range candidates {
			c := &candidates[i]
			switch {
			case c.stamped != stamped:
				continue
			case c.content == refuted:
				differs = true
				continue
			case c.content == unknown:
				return verdict{hit: -1, need: needContent, candidate: i}
			}
			v.contentMatch = true
			accepted, refused := a.accepts(c)
			switch accepted {
			case confirmed:
				return verdict{hit: i, contentMatch: true}
			case unknown:
				if c.size == unknown {
					return verdict{hit: -1, need: needSize, candidate: i}
				}
				return verdict{hit: -1, need: needSum, candidate: i}
			}
			if v.refusal == noRefusal {
				v.refusal = refused
			}
		}
	}
	if v.refusal == noRefusal && differs {
		v.refusal = refuseContent
	}
	return v
}

// accepts reports whether a candidate of the session's content answers a look-up, and if not, why.
func (a request) accepts(c *candidate) (fact, refusal) {
	switch {
	case a.compare && !a.described:
		return refuted, refuseNoPacking
	case a.compare:
		return refuted, refuseCompare
	case c.variant:
		return refuted, refuseVariant
	case !c.seed:
		return refuted, refuseSeed
	case a.repeated && !a.described:
		return refuted, refuseNoPacking
	case a.repeated && !c.tied:
		// XNNPACK's key lacks scales and zero points. A second use of the key may have others, unless both were once
		// packed into the same bytes.
		return refuted, refuseRepeated
	case a.ambiguous && !c.tied:
		return refuted, refuseAmbiguous // it may be of another of the ways
	case c.size == refuted:
		return refuted, refuseUnsized
	case c.size == unknown:
		return unknown, noRefusal
	case c.verified:
		return confirmed, noRefusal
	case a.verify == VerifyOnUse && c.sound == refuted:
		return refuted, refuseDamaged
	case a.verify == VerifyOnUse:
		return c.sound, noRefusal
	}
	return confirmed, noRefusal
}

// A stored has the facts of an entry under the key of a packing.
type stored struct {
	equalBytes bool // it has the packed bytes
	content    bool // it was packed from the session's content
	seed       bool // its bytes are what XNNPACK packs under the seed of the look-up
	sound      bool // its bytes have its checksum
	wrongSize  bool // it is in the file, and the operator reads another size
}

// compare decides what to do with the entries under the key of a packing. Equal bytes are right, whatever their source.
// Other bytes of the same content are a variant, unless they are damaged.
func compare(rivals []stored) []writer.Action {
	actions := make([]writer.Action, len(rivals))
	for i := range rivals {
		if rivals[i].equalBytes {
			actions[i] = writer.Reuse
			return actions
		}
	}
	for i, r := range rivals {
		switch {
		case !r.content, !r.seed:
		case !r.sound, r.wrongSize:
			actions[i] = writer.MarkDamaged
		default:
			actions[i] = writer.MarkVariant
		}
	}
	return actions
}
