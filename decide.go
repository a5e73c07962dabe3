package xpwc

import "xpwc/internal/writer"

// What a look-up is answered, and what becomes of what was packed, is decided here, from facts alone: nothing is read,
// locked or changed.

// A fact is what is known of something.
type fact uint8

const (
	unknown fact = iota // it can be found out
	yes
	no
)

func factOf(b bool) fact {
	if b {
		return yes
	}
	return no
}

// An asking is what a look-up says, beside its key.
type asking struct {
	compare   bool   // nobody vouches for what was packed before: see packedAs.believed
	again     bool   // the session was given an entry for the same before
	given     bool   // the host gave a packing identity
	ambiguous bool   // the identities that it gave stand for several ways of packing
	verify    Verify // Options.Verify
}

// A candidate is what is known of an entry under the key of a look-up.
type candidate struct {
	stamped  bool // the stamps of its sources are those of the session's
	content  fact // it was packed from the session's content
	seed     bool // its bytes are what XNNPACK packs under the seed of the look-up
	variant  bool // one of several under its key: nobody can say which is meant
	tied     bool // all uses of its key were seen to be packed into its bytes
	size     fact // it has as many bytes as the operator reads
	verified bool // its bytes were compared, or are in no generation on the disk
	sound    fact // its bytes have their sum; asked only with VerifyOnUse
}

// A verdict is what a look-up is answered, or what is to be found out first.
type verdict struct {
	hit     int     // the candidate that answers it, or -1
	same    bool    // there is one of the same content: what will be packed is to be compared with it
	lacks   lack    // what is to be found out, of candidate of; then it is decided again
	refusal refusal // of the first candidate that could have answered it
	of      int
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

// A lack is what is to be found out before something can be decided.
type lack uint8

const (
	nothing lack = iota
	itsContent
	itsSize
	itsSum
)

// decide answers a look-up. Stamps are looked at first: one name may stand for the weights of several models, and a
// digest, which distinguishes those, reads the whole tensor.
func decide(a asking, candidates []candidate) verdict {
	v := verdict{hit: -1}
	differs := false // the content of a candidate
	for _, stamped := range []bool{true, false} {
		for i := range candidates {
			c := &candidates[i]
			switch {
			case c.stamped != stamped:
				continue
			case c.content == no:
				differs = true
				continue
			case c.content == unknown:
				return verdict{hit: -1, lacks: itsContent, of: i}
			}
			v.same = true
			takes, refused := a.takes(c)
			switch takes {
			case yes:
				return verdict{hit: i, same: true}
			case unknown:
				if c.size == unknown {
					return verdict{hit: -1, lacks: itsSize, of: i}
				}
				return verdict{hit: -1, lacks: itsSum, of: i}
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

// takes reports whether a candidate of the session's content answers a look-up, and if not, why.
func (a asking) takes(c *candidate) (fact, refusal) {
	switch {
	case a.compare && !a.given:
		return no, refuseNoPacking
	case a.compare:
		return no, refuseCompare
	case c.variant:
		return no, refuseVariant
	case !c.seed:
		return no, refuseSeed
	case a.again && !a.given:
		return no, refuseNoPacking
	case a.again && !c.tied:
		// Scales and zero points are not in XNNPACK's key. A second use of it in one model may mean other ones, until
		// it was once seen to be packed into the same bytes, and always if the host gives no packing identity.
		return no, refuseRepeated
	case a.ambiguous && !c.tied:
		return no, refuseAmbiguous // it may be of another of the ways
	case c.size == no:
		return no, refuseUnsized
	case c.size == unknown:
		return unknown, noRefusal
	case c.verified:
		return yes, noRefusal
	case a.verify == VerifyOnUse && c.sound == no:
		return no, refuseDamaged
	case a.verify == VerifyOnUse:
		return c.sound, noRefusal
	}
	return yes, noRefusal
}

// A rival is what is known of an entry under the key of what was packed.
type rival struct {
	equal     bool // it has the very bytes
	content   bool // it was packed from the session's content
	seed      bool // its bytes are what XNNPACK packs under the seed of the look-up
	sound     bool // its bytes have their sum
	wrongSize bool // it is in the file, and cannot be what the operator reads
}

// compare decides what becomes of entries under the key of what was packed. Equal bytes are right, whoever packed them
// from what. Other bytes of the same content are a variant, unless they are damaged.
func compare(rivals []rival) []writer.Lot {
	lots := make([]writer.Lot, len(rivals))
	for i := range rivals {
		if rivals[i].equal {
			lots[i] = writer.Taken
			return lots
		}
	}
	for i, r := range rivals {
		switch {
		case !r.content, !r.seed:
		case !r.sound, r.wrongSize:
			lots[i] = writer.Damaged
		default:
			lots[i] = writer.Varies
		}
	}
	return lots
}
