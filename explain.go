package xpwc

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/writer"
)

// An Explanation is what the creation of one or more runtimes took beyond mapping, and why.
type Explanation struct {
	// Weights are what XNNPACK looked up or packed, each with the bytes that were found or packed.
	Weights []Outcome
	// Tensors are the unpacked tensors that were read in full, to compare their digests.
	Tensors []Outcome
	// Reasons counts both by reason, with private memory, waits and growth, as Stats.Reasons does for all loads.
	Reasons map[Reason]Count
	// Waited is how long sessions waited for other processes.
	Waited time.Duration
}

// An Outcome is what became of a weight, or of a tensor that was read.
type Outcome struct {
	Name   string // of the weights followed by that of the bias, or of the tensor; "" if they have none
	Bytes  int64
	Reason Reason // "" for a weight that was found
	Detail string // what differs, for people; "" if Reason has all
}

// Explain returns what a finalized session took beyond mapping. After Close it returns nothing.
func (s *Session) Explain() Explanation {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &s.slow
	e := Explanation{Tensors: of.read, Reasons: maps.Clone(of.counts), Waited: s.user.Waited}
	next := map[*entries.Entry][]Outcome{}
	for i, packed := range of.packed {
		next[packed] = append(next[packed], of.outcomes[i])
	}
	for _, used := range s.user.Used() {
		o := Outcome{Name: used.Name(), Bytes: int64(len(used.Data))}
		if slow := next[used]; len(slow) > 0 {
			o, next[used] = slow[0], slow[1:]
		}
		e.Weights = append(e.Weights, o)
	}
	e.Weights = append(e.Weights, next[nil]...) // XNNPACK did not pack them
	return e
}

// Add adds the explanation of another session.
func (e *Explanation) Add(more Explanation) {
	e.Weights = append(e.Weights, more.Weights...)
	e.Tensors = append(e.Tensors, more.Tensors...)
	if e.Reasons == nil {
		e.Reasons = map[Reason]Count{}
	}
	for reason, count := range more.Reasons {
		e.Reasons[reason] = e.Reasons[reason].plus(count)
	}
	e.Waited += more.Waited
}

// Found counts the weights that were found.
func (e *Explanation) Found() (found Count) {
	for i := range e.Weights {
		if e.Weights[i].Reason == "" {
			found.add(e.Weights[i].Bytes)
		}
	}
	return found
}

// String returns the explanation as sentences for people: how many weights are found, then each reason with what it
// concerns and what to do.
func (e *Explanation) String() string {
	var b strings.Builder
	found := e.Found()
	fmt.Fprintf(&b, "%d of %d weights are found", found.Entries, len(e.Weights))
	if found.Entries > 0 {
		fmt.Fprintf(&b, " (%s)", megabytes(found.Bytes))
	}
	b.WriteString(".")
	details := map[Reason]string{}
	for _, outcomes := range [][]Outcome{e.Weights, e.Tensors} {
		for _, o := range outcomes {
			details[o.Reason] = cmp.Or(details[o.Reason], o.Detail)
		}
	}
	for _, m := range reasons {
		count, counted := e.Reasons[m.reason]
		if !counted {
			continue
		}
		fmt.Fprintf(&b, " %s: %s", e.concerned(m.kind, count), m.because)
		if detail := details[m.reason]; detail != "" {
			fmt.Fprintf(&b, " (%s)", detail)
		}
		b.WriteString(strings.TrimSuffix(". "+m.remedy, " "))
	}
	return b.String()
}

// concerned returns the subject and the verb of a sentence about a reason.
func (e *Explanation) concerned(kind ReasonKind, count Count) string {
	size := megabytes(count.Bytes)
	switch kind {
	case Compared:
		return fmt.Sprintf("%d (%s) are packed and compared", count.Entries, size)
	case Read:
		return fmt.Sprintf("%d tensors (%s) are read in full", count.Entries, size)
	case PrivateMemory:
		return fmt.Sprintf("%d (%s) are in private memory", count.Entries, size)
	case Grows:
		return fmt.Sprintf("%d (%s) make the file grow at each start", count.Entries, size)
	case Waited:
		if count.Bytes == 0 {
			return "Waited for " + e.Waited.Round(time.Millisecond).String()
		}
	}
	return fmt.Sprintf("%d (%s) are packed", count.Entries, size)
}

func megabytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func (c *Count) add(bytes int64) { c.Entries++; c.Bytes += bytes }

func (c Count) plus(more Count) Count { return Count{c.Entries + more.Entries, c.Bytes + more.Bytes} }

// slowness is what a session takes beyond mapping.
type slowness struct {
	missed  []*miss // until Finalize
	read    []Outcome
	private map[Reason]Count // which the writer counts too

	// From Finalize on, of what was missed: the entries in place of it, with their outcomes.
	packed   []*entries.Entry
	outcomes []Outcome
	counts   map[Reason]Count
}

// countPrivate counts a packing in private memory.
func (of *slowness) countPrivate(why Reason, bytes int) {
	if of.private == nil {
		of.private = map[Reason]Count{}
	}
	of.private[why] = of.private[why].plus(Count{1, int64(bytes)})
}

// A miss is a weight that XNNPACK packs.
type miss struct {
	*weight
	reason Reason // "" until it is known
	detail string
	packed *entries.Entry // in place of what was not found, or nil
	isNew  bool           // the cache did not have it
}

// noteMiss takes note of a look-up that missed.
func (s *Session) noteMiss(w *weight) *miss {
	m := &miss{weight: w, reason: refusals[w.verdict.refusal]}
	if m.reason == "" && w.misfit {
		m.reason = ReasonSize
	}
	s.slow.missed = append(s.slow.missed, m)
	return m
}

// notePacked keeps the entry of what XNNPACK packed after a miss, or without a look-up: then m is nil.
func (s *Session) notePacked(w *weight, m *miss, e *entries.Entry, isNew bool) {
	if m != nil {
		m.packed, m.isNew = e, isNew
		return
	}
	m = &miss{weight: w, packed: e, isNew: isNew}
	if !isNew {
		m.reason = ReasonUnasked
	}
	s.slow.missed = append(s.slow.missed, m)
}

// noteReading takes note of the tensors of a weight that are about to be read, to be compared with a view.
func (s *Session) noteReading(w *weight, v *writer.View) {
	for _, pair := range []struct {
		src   *source
		other *entries.Content
	}{{w.kernel, v.Kernel}, {w.bias, v.Bias}} {
		if pair.src == nil || pair.other == &pair.src.is {
			continue
		}
		if _, known, _ := pair.src.is.Known(); known {
			continue
		}
		from := pair.src
		for from.copyOf != nil && from.copying.how != compared {
			from = from.copyOf
		}
		if from.unread {
			continue
		}
		o := Outcome{Name: pair.src.name, Bytes: int64(len(from.content)), Reason: ReasonStamp}
		if from.is.Stamp == (Digest{}) {
			o.Reason = cmp.Or(Reason(from.is.Origin.NoStamp), ReasonUnstamped)
		}
		s.slow.read = append(s.slow.read, o)
	}
}

// findReasons finds, counts and reports the reason for each weight that XNNPACK packed. Their digests are known.
func (s *Session) findReasons() {
	of := &s.slow
	of.counts = map[Reason]Count{}
	if len(of.missed) > 0 {
		s.searchFile()
	}
	for _, m := range of.missed {
		o := Outcome{Name: m.Key.Kernel + m.Key.Bias, Reason: m.reason, Detail: m.detail}
		if m.packed != nil {
			o.Bytes = int64(len(m.packed.Data))
		}
		of.packed, of.outcomes = append(of.packed, m.packed), append(of.outcomes, o)
		if o.Reason.Kind() != PrivateMemory {
			of.countOutcome(o)
		}
	}
	of.missed = nil
	for _, o := range of.read {
		of.countOutcome(o)
	}
	for reason, waits := range map[Reason]int{ReasonProcess: s.user.Waits, ReasonSession: s.user.SessionWaits} {
		if waits > 0 {
			of.counts[reason] = of.counts[reason].plus(Count{Entries: int64(waits)})
		}
	}
	s.cache.countReasons(of.counts)
	maps.Copy(of.counts, of.private)
	s.reportReasons()
}

func (of *slowness) countOutcome(o Outcome) {
	of.counts[o.Reason] = of.counts[o.Reason].plus(Count{1, o.Bytes})
}

func (c *core) countReasons(counts map[Reason]Count) {
	if len(counts) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for reason, count := range counts {
		c.reasons[reason] = c.reasons[reason].plus(count)
	}
}

// reportReasons reports each reason of the load once.
func (s *Session) reportReasons() {
	c := s.cache
	for _, m := range reasons {
		count, counted := s.slow.counts[m.reason]
		if !counted || m.reason == ReasonProcess { // which was reported when it began
			continue
		}
		level, message := slog.LevelInfo, "a load took longer than mapping"
		attributes := []slog.Attr{
			slog.String("reason", string(m.reason)),
			slog.Int64("entries", count.Entries), slog.Int64("bytes", count.Bytes),
		}
		because := slog.String("because", m.reason.Text())
		switch m.kind {
		case PrivateMemory:
			message = "packing into private memory"
			last := c.writer.Figures().LastError
			if m.reason == ReasonUnnamed || c.options.ReadOnly { // as the host has it
				break
			}
			level = slog.LevelWarn
			if m.reason != ReasonBusy && last != nil {
				because = slog.Any("error", last)
			}
		case Grows:
			level, message = slog.LevelWarn, "the cache file grows at each start"
		}
		c.events.add(level, message, append(attributes, because)...)
	}
}

// A near record is the one of the cache whose key is most like that of a look-up that missed.
type near struct {
	alike  int
	reason Reason
	detail string
}

// A content is what a weight is packed from.
type content struct{ kernel, bias Digest }

// A repetition counts the packings of one content.
type repetition struct {
	packed   Count // by this session
	recorded int64 // in the file, for such a machine
}

// grownAfter is how many times the file has a content when it counts as growing at each start. Fewer may be of a
// model's signatures, which name one tensor differently.
const grownAfter = 3

// searchFile finds the reasons for which nothing was found, and whether the file grows at each start.
func (s *Session) searchFile() {
	kernels := map[string][]*miss{} // whose reason is to be found
	repeated := map[content]*repetition{}
	for _, m := range s.slow.missed {
		if !m.named {
			m.reason = ReasonUnnamed
			continue
		}
		if m.reason == "" {
			kernels[m.Key.Kernel] = append(kernels[m.Key.Kernel], m)
		}
		if c, known := m.content(); known && m.isNew && m.packed != nil {
			r := cmp.Or(repeated[c], &repetition{})
			r.packed.add(int64(len(m.packed.Data)))
			repeated[c] = r
		}
	}
	if len(kernels) == 0 && len(repeated) == 0 {
		return
	}
	var here format.Layout
	if !s.cache.inMemory() {
		here, _ = ask.Layout() // which was asked before something was packed
	}
	nearest := map[*miss]near{}
	complete := s.user.Search(func(r *format.Record, description string, withheld bool) {
		for _, m := range kernels[r.Kernel] {
			if n := m.compareKey(r, description, here.Description, withheld); n.alike > nearest[m].alike {
				nearest[m] = n
			}
		}
		if here.Fingerprint == (Digest{}) || r.Layout != here.Fingerprint && description != here.Description {
			return
		}
		if r := repeated[content{r.KernelDigest, r.BiasDigest}]; r != nil {
			r.recorded++
		}
	})
	missing := Reason(s.user.Empty())
	if missing == "" {
		missing = ReasonName
		if !complete {
			missing = ReasonKey
		}
	}
	for _, misses := range kernels {
		for _, m := range misses {
			n := nearest[m]
			m.reason, m.detail = cmp.Or(n.reason, missing), n.detail
		}
	}
	s.countGrowth(repeated)
}

// content returns what a weight was packed from, if it is known.
func (w *weight) content() (c content, known bool) {
	d, known, err := w.kernel.is.Known()
	if !known || err != nil {
		return content{}, false
	}
	c.kernel = d
	if w.bias != nil {
		c.bias, known, err = w.bias.is.Known()
	}
	return c, known && err == nil
}

// countGrowth counts what the session packed and the file has many times, if that is most of it.
func (s *Session) countGrowth(repeated map[content]*repetition) {
	var all, grown Count
	for _, r := range repeated {
		all = all.plus(r.packed)
		if r.recorded >= grownAfter*r.packed.Entries {
			grown = grown.plus(r.packed)
		}
	}
	if grown.Entries > 0 && 2*grown.Bytes >= all.Bytes {
		s.slow.counts[ReasonGrowth] = grown
	}
}

// compareKey compares the key of a look-up with that of a record of the same kernel's name: how alike they are, and the
// first difference.
func (w *weight) compareKey(r *format.Record, theirs, here string, withheld bool) near {
	k := &w.Key
	n := near{alike: 1}
	sameBias := k.HasBias == r.HasBias && k.Bias == r.Bias
	c, known := w.content()
	sameContent := !known || r.KernelDigest == (Digest{}) || c == content{r.KernelDigest, r.BiasDigest}
	for i, same := range []bool{
		k.Packing == r.Packing, k.FingerprintID == r.FingerprintID, sameContent, k.Layout == r.Layout, sameBias,
	} {
		if same {
			n.alike += 2 << i
		}
	}
	switch {
	case !sameBias:
		n.reason, n.detail = ReasonName, "it has this kernel with another bias"
	case k.Layout != r.Layout:
		n.reason, n.detail = ReasonLayout, fmt.Sprintf("it is for %s, and this is %s", theirs, here)
		if processor, _, built := strings.Cut(theirs, ", XNNPACK "); built && strings.HasPrefix(here, processor+", ") {
			n.reason = ReasonXNNPACK
		}
	case !sameContent: // of another model, or of this one before it was changed
		n.reason = ReasonContent
	case k.FingerprintID != r.FingerprintID:
		n.reason = ReasonFingerprint
		n.detail = fmt.Sprintf("the file has %#x, and XNNPACK asks for %#x", r.FingerprintID, k.FingerprintID)
	case k.Packing != r.Packing:
		n.reason = ReasonPacking
		if k.Packing == (Digest{}) {
			n.detail = "it gave none"
		}
	case withheld:
		n.reason = ReasonDamaged
	default: // it was not there yet when XNNPACK looked it up
		n.reason = ReasonSession
	}
	return n
}
