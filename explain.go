package xpwc

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
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
	report := &s.report
	e := Explanation{Tensors: report.read, Reasons: maps.Clone(report.counts), Waited: s.user.Waited}
	next := map[*entries.Entry][]Outcome{}
	for _, o := range report.packed {
		next[o.entry] = append(next[o.entry], o.Outcome)
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
func (e *Explanation) Add(o Explanation) {
	e.Weights = append(e.Weights, o.Weights...)
	e.Tensors = append(e.Tensors, o.Tensors...)
	if e.Reasons == nil {
		e.Reasons = map[Reason]Count{}
	}
	for reason, count := range o.Reasons {
		e.Reasons[reason] = e.Reasons[reason].plus(count)
	}
	e.Waited += o.Waited
}

// Found counts the weights that were found.
func (e *Explanation) Found() (count Count) {
	for i := range e.Weights {
		if e.Weights[i].Reason == "" {
			count.add(e.Weights[i].Bytes)
		}
	}
	return count
}

// String returns the explanation as sentences for people: how many weights are found, then each reason with what it
// concerns and what to do.
func (e *Explanation) String() string {
	var b strings.Builder
	hits := e.Found()
	fmt.Fprintf(&b, "%d of %d weights are found", hits.Entries, len(e.Weights))
	if hits.Entries > 0 {
		fmt.Fprintf(&b, " (%s)", megabytes(hits.Bytes))
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

func (c Count) plus(o Count) Count { return Count{c.Entries + o.Entries, c.Bytes + o.Bytes} }

// loadReport is what a session takes beyond mapping.
type loadReport struct {
	missed  []*miss // until Finalize
	read    []Outcome
	private map[Reason]Count // which the writer counts too

	// From Finalize on:
	packed []packedOutcome
	counts map[Reason]Count
}

// A packedOutcome is what became of a weight that missed, with its entry, or nil.
type packedOutcome struct {
	Outcome
	entry *entries.Entry
}

// countPrivate counts a packing in private memory.
func (r *loadReport) countPrivate(reason Reason, bytes int) {
	if r.private == nil {
		r.private = map[Reason]Count{}
	}
	r.private[reason] = r.private[reason].plus(Count{1, int64(bytes)})
}

// A miss is a weight that XNNPACK packs.
type miss struct {
	*weight
	reason Reason // "" until it is known
	detail string
	packed *entries.Entry // or nil
	isNew  bool           // the cache did not have it
	next   *miss          // of the same kernel, in searchFile
}

// noteMiss records a look-up that missed.
func (s *Session) noteMiss(w *weight) *miss {
	m := &miss{weight: w, reason: refusals[w.refusal]}
	if m.reason == "" && w.sizeMismatch {
		m.reason = ReasonSize
	}
	s.report.missed = append(s.report.missed, m)
	return m
}

// notePacked records the entry of a weight that XNNPACK packed after a miss, or without a look-up: then m is nil.
func (s *Session) notePacked(w *weight, m *miss, e *entries.Entry, isNew bool) {
	if m != nil {
		m.packed, m.isNew = e, isNew
		return
	}
	m = &miss{weight: w, packed: e, isNew: isNew}
	if !isNew {
		m.reason = ReasonUnasked
	}
	s.report.missed = append(s.report.missed, m)
}

// noteReading records the tensors of a weight that are about to be read and compared with an entry's.
func (s *Session) noteReading(w *weight, v *writer.View) {
	for _, pair := range []struct {
		src    *source
		stored *entries.Content
	}{{w.kernel, v.Kernel}, {w.bias, v.Bias}} {
		if pair.src == nil || pair.stored == &pair.src.identity {
			continue
		}
		if _, digested, _ := pair.src.identity.Computed(); digested {
			continue
		}
		original := pair.src
		for original.copyOf != nil && original.copyMethod.kind != byContent {
			original = original.copyOf
		}
		if original.unread {
			continue
		}
		o := Outcome{Name: pair.src.name, Bytes: int64(len(original.content)), Reason: ReasonStamp}
		if original.identity.Stamp == (Digest{}) {
			o.Reason = cmp.Or(Reason(original.identity.Origin.NoStamp), ReasonUnstamped)
		}
		s.report.read = append(s.report.read, o)
	}
}

// findReasons finds, counts and reports the reason for each weight that XNNPACK packed. Their digests are known.
func (s *Session) findReasons() {
	report := &s.report
	report.counts = map[Reason]Count{}
	if len(report.missed) > 0 {
		s.searchFile()
	}
	report.packed = make([]packedOutcome, 0, len(report.missed))
	for _, m := range report.missed {
		o := Outcome{Name: m.Key.Kernel + m.Key.Bias, Reason: m.reason, Detail: m.detail}
		if m.packed != nil {
			o.Bytes = int64(len(m.packed.Data))
		}
		report.packed = append(report.packed, packedOutcome{o, m.packed})
		if o.Reason.Kind() != PrivateMemory {
			report.countOutcome(o)
		}
	}
	report.missed = nil
	for _, o := range report.read {
		report.countOutcome(o)
	}
	for reason, waits := range map[Reason]int{ReasonProcess: s.user.Waits, ReasonSession: s.user.SessionWaits} {
		if waits > 0 {
			report.counts[reason] = report.counts[reason].plus(Count{Entries: int64(waits)})
		}
	}
	s.cache.countReasons(report.counts)
	maps.Copy(report.counts, report.private)
	s.reportReasons()
}

func (r *loadReport) countOutcome(o Outcome) {
	r.counts[o.Reason] = r.counts[o.Reason].plus(Count{1, o.Bytes})
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
		count, counted := s.report.counts[m.reason]
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
		c.log.Add(level, message, append(attributes, because)...)
	}
}

// A nearest record is the one of the cache whose key is most like that of a look-up that missed.
type nearest struct {
	score  int
	reason Reason
	detail string
}

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
	kernels := make(map[string]*miss, len(s.report.missed)) // without a reason, linked by next
	repeated := make(map[format.Hashes]repetition, len(s.report.missed))
	for _, m := range s.report.missed {
		if !m.named {
			m.reason = ReasonUnnamed
			continue
		}
		if m.reason == "" {
			m.next = kernels[m.Key.Kernel]
			kernels[m.Key.Kernel] = m
		}
		if digests, computed, err := m.contents().Digests(); computed && err == nil && m.isNew && m.packed != nil {
			r := repeated[digests]
			r.packed.add(int64(len(m.packed.Data)))
			repeated[digests] = r
		}
	}
	if len(kernels) == 0 && len(repeated) == 0 {
		return
	}
	var current format.Layout
	if !s.cache.inMemory() && (ask.Answered() || s.cache.writer.Index() != nil) {
		current, _ = ask.Layout()
		s.cache.writer.SetLayout(current.Fingerprint)
	}
	for _, m := range s.report.missed {
		if m.Key.Layout == (Digest{}) { // it was not needed when the weight was packed
			m.SetLayout(current.Fingerprint)
		}
	}
	best := map[*miss]nearest{}
	complete := s.user.Search(func(r *format.Record, description string, withheld bool) {
		for m := kernels[r.Kernel]; m != nil; m = m.next {
			if n := m.compareKey(r, description, current.Description, withheld); n.score > best[m].score {
				best[m] = n
			}
		}
		if current.Fingerprint == (Digest{}) || r.Layout != current.Fingerprint && description != current.Description {
			return
		}
		if repetition, packed := repeated[r.Digests]; packed {
			repetition.recorded++
			repeated[r.Digests] = repetition
		}
	})
	missing := Reason(s.user.Empty())
	if missing == "" {
		missing = ReasonName
		if !complete {
			missing = ReasonKey
		}
	}
	for _, m := range kernels {
		for ; m != nil; m = m.next {
			n := best[m]
			m.reason, m.detail = cmp.Or(n.reason, missing), n.detail
		}
	}
	s.countGrowth(repeated)
}

// countGrowth counts what the session packed and the file has many times, if that is most of it.
func (s *Session) countGrowth(repeated map[format.Hashes]repetition) {
	var total, grown Count
	for _, r := range repeated {
		total = total.plus(r.packed)
		if r.recorded >= grownAfter*r.packed.Entries {
			grown = grown.plus(r.packed)
		}
	}
	if grown.Entries > 0 && 2*grown.Bytes >= total.Bytes {
		s.report.counts[ReasonGrowth] = grown
	}
}

// compareKey compares the key of a look-up with that of a record of the same kernel's name: how alike they are, and the
// first difference.
func (w *weight) compareKey(r *format.Record, description, currentDescription string, withheld bool) nearest {
	k := &w.Key
	n := nearest{score: 1}
	sameBias := k.HasBias == r.HasBias && k.Bias == r.Bias
	digests, computed, err := w.contents().Digests()
	// A layout that was not known when a weight was packed is this machine's.
	sameLayout := k.Layout == r.Layout || k.Layout == (Digest{}) || r.Layout == (Digest{})
	sameContent := !computed || err != nil || r.Digests.Kernel == (Digest{}) || digests == r.Digests
	for i, match := range []bool{
		k.Packing == r.Packing, k.FingerprintID == r.FingerprintID, sameContent, sameLayout, sameBias,
	} {
		if match {
			n.score += 2 << i
		}
	}
	switch {
	case !sameBias:
		n.reason, n.detail = ReasonName, "it has this kernel with another bias"
	case !sameLayout:
		n.reason, n.detail = ReasonLayout, fmt.Sprintf("it is for %s, and this is %s", description, currentDescription)
		processor, _, complete := strings.Cut(description, ", XNNPACK ")
		if complete && strings.HasPrefix(currentDescription, processor+", ") {
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

// A Reason is why a start takes longer than mapping: why a look-up missed, a packing was compared, a tensor was read,
// packed weights are in private memory, or a session waited. [Reasons] lists all.
type Reason string

// A ReasonKind groups reasons by what they cost.
type ReasonKind string

// The kinds of reasons.
const (
	// Missed: a look-up found nothing, and XNNPACK packed the weight.
	Missed ReasonKind = "miss"
	// Compared: XNNPACK packed the weight, and the result was compared with the cache's.
	Compared ReasonKind = "comparison"
	// Read: a tensor was read in full, for its digest.
	Read ReasonKind = "read"
	// PrivateMemory: packed weights are in private memory in place of the file.
	PrivateMemory ReasonKind = "private"
	// Waited: a session waited before it packed.
	Waited ReasonKind = "wait"
	// Grows: the file has the same weights already, and no start finds them.
	Grows ReasonKind = "growth"
)

// Reasons for a miss.
const (
	// ReasonInMemory: the cache has no file, or cannot use it.
	ReasonInMemory Reason = "in-memory"
	// ReasonNoFile: there was no file, or nothing in it.
	ReasonNoFile Reason = "no-file"
	// ReasonForeign: the file was of ExecuTorch, or of an older version of the format.
	ReasonForeign Reason = "foreign"
	// ReasonDamaged: the file, or this payload, was damaged.
	ReasonDamaged Reason = "damaged"
	// ReasonName: the file has no weights of these names.
	ReasonName Reason = "name"
	// ReasonLayout: the file has the weights in another layout: for another CPU, or of another XNNPACK.
	ReasonLayout Reason = "layout"
	// ReasonXNNPACK: the file has the weights for such a CPU in another layout, of another build of XNNPACK.
	ReasonXNNPACK Reason = "xnnpack"
	// ReasonFingerprint: the file has the weights under another fingerprint_id of XNNPACK's key.
	ReasonFingerprint Reason = "fingerprint"
	// ReasonPacking: the file has the weights under another packing identity.
	ReasonPacking Reason = "packing"
	// ReasonContent: the file has weights of these names with other content.
	ReasonContent Reason = "content"
	// ReasonSize: the file's payload does not have the size that the operator reads.
	ReasonSize Reason = "size"
	// ReasonKey: the file has no entry under the key. Its index is too large, or too damaged, to find out more.
	ReasonKey Reason = "key"
)

// Reasons for a comparison.
const (
	// ReasonCompare: the host loaded the kernel with [Compare], or with an opaque identity and without [Believe].
	ReasonCompare Reason = "compare"
	// ReasonNoPacking: the host gave no packing identity.
	ReasonNoPacking Reason = "no-packing"
	// ReasonVariant: the file has several payloads under the key.
	ReasonVariant Reason = "variant"
	// ReasonSeed: the file has the weights under another seed.
	ReasonSeed Reason = "seed"
	// ReasonRepeated: the model uses the key a second time.
	ReasonRepeated Reason = "repeated"
	// ReasonAmbiguous: the host gave several packing identities for the kernel.
	ReasonAmbiguous Reason = "ambiguous"
	// ReasonUnsized: XNNPACK does not tell how many bytes it packs.
	ReasonUnsized Reason = "unsized"
	// ReasonUnasked: XNNPACK packed the weight without a look-up.
	ReasonUnasked Reason = "unasked"
)

// Reasons for reading a tensor.
const (
	// ReasonStamp: the file has another stamp of the same tensor: the model has another path, inode or time.
	ReasonStamp Reason = "stamp"
	// ReasonUnstamped: the tensor has no stamp, and the data map gives no reason for that.
	ReasonUnstamped Reason = "unstamped"
	// ReasonWritten: the model was not at rest: a program can write to it, or has just done so.
	ReasonWritten Reason = mapped.Written
	// ReasonOwner: the model was changed not long ago, and the system does not tell this user who can write to it.
	ReasonOwner Reason = mapped.Owner
	// ReasonFileSystem: the model's file system does not make times that show each change.
	ReasonFileSystem Reason = mapped.FileSystem
)

// Reasons for private memory.
const (
	// ReasonUnnamed: XNNPACK packed from a pointer that Session.Load never gave out, so nothing identifies the content.
	ReasonUnnamed Reason = writer.ReasonUnnamed
	// ReasonReadOnly: the file or its directory cannot be written to, or Options.ReadOnly is set.
	ReasonReadOnly Reason = writer.ReasonReadOnly
	// ReasonBusy: another process was packing into the file for longer than Options.WriterWait.
	ReasonBusy Reason = writer.ReasonBusy
	// ReasonVersion: the file is of a newer version of the format. It is left to programs that know it.
	ReasonVersion Reason = writer.ReasonVersion
	// ReasonDisk: reserving or mapping file space failed; Stats.LastError has the error.
	ReasonDisk Reason = writer.ReasonDisk
)

// Reasons of the other kinds.
const (
	// ReasonProcess: another process was packing into the file.
	ReasonProcess Reason = "process"
	// ReasonSession: another session was packing the weight.
	ReasonSession Reason = "session"
	// ReasonGrowth: the file has the same content for such a machine three times or more.
	ReasonGrowth Reason = "growth"
)

// A meaning is what a reason stands for, and what to do about it.
type meaning struct {
	reason          Reason
	kind            ReasonKind
	because, remedy string
}

// reasons has each reason with its kind, its sentence, and what to do about it. The C API numbers reasons by their
// place: new ones come last.
var reasons = []meaning{
	{ReasonInMemory, Missed, "the cache has no file", "Open the cache with a path."},
	{ReasonNoFile, Missed, "there was no file, or nothing in it",
		"Pack ahead of time. Otherwise the first start that can write to it packs for the next ones."},
	{ReasonForeign, Missed, "the file was ExecuTorch's, or of an older version of the format",
		"Give the cache a path of its own. A file of an older version is replaced once."},
	{ReasonDamaged, Missed, "the file, or this part of it, was damaged", "Run xpwc verify, and look at the disk."},
	{ReasonName, Missed, "the file has no weights of these names",
		"Give each model its file, and its tensors the same names at each start."},
	{ReasonLayout, Missed, "the file was packed for another CPU, or by another XNNPACK, with another layout",
		"Pack on such a machine, or with xpwc pack --cpu."},
	{ReasonXNNPACK, Missed, "the file was packed by another XNNPACK", "Pack with the XNNPACK of the program."},
	{ReasonFingerprint, Missed, "XNNPACK's key has another fingerprint_id",
		"Pack with the XNNPACK of the program. If it differs at each start, host and library have different ones."},
	{ReasonPacking, Missed, "the host gave another packing identity",
		"Describe each kernel in the same way at each start, without addresses or times."},
	{ReasonContent, Missed, "the file has weights of these names with other content",
		"If the model was not changed, another model has the same names: give each its file."},
	{ReasonSize, Missed, "the payload in the file does not have the size that the operator reads",
		"Give the packing identity of each use, and run xpwc verify --model."},
	{ReasonKey, Missed, "the file has no entry under the key, and its index is too large to search for the cause",
		"Give each model its file."},
	{ReasonCompare, Compared, "the host asked for a comparison, or described the kernel in part",
		"Give the packing identity of the node, with its shape."},
	{ReasonNoPacking, Compared, "the host gave no packing identity", "Load each kernel with its packing identity."},
	{ReasonVariant, Compared, "the file has several payloads under the key",
		"Give a packing identity that distinguishes them."},
	{ReasonSeed, Compared, "XNNPACK's key has another seed", ""},
	{ReasonRepeated, Compared, "the model uses the key a second time", "The next start finds both if they are equal."},
	{ReasonAmbiguous, Compared, "the kernel is used in several ways", "Give each use a kernel of its own name."},
	{ReasonUnsized, Compared, "XNNPACK does not tell how many bytes it packs", ""},
	{ReasonUnasked, Compared, "XNNPACK packs this operator without a look-up", ""},
	{ReasonStamp, Read,
		"the file has another stamp of the model, or none: it was copied, moved, sealed, or packed elsewhere",
		"Let one start write to the file, or run xpwc pack MODEL -o FILE: the file then has the model's stamp."},
	{ReasonUnstamped, Read, "the tensor has no stamp", "Give its identity a stamp."},
	{ReasonWritten, Read, "a program can write to the model, or has just written it",
		"Close the model after writing, and replace it by a rename."},
	{ReasonOwner, Read, "the model is another user's, and was changed not long ago",
		"Give the service CAP_LEASE, make the model immutable (chattr +i), or wait: 15 minutes on ext4, else a day."},
	{ReasonFileSystem, Read, "the file system of the model has no times that show each change",
		"Keep the model on a local file system."},
	{ReasonUnnamed, PrivateMemory, "XNNPACK packed weights that the host did not load by name",
		"Load them with the session."},
	{ReasonReadOnly, PrivateMemory, "the file or its directory cannot be written to",
		"Pack ahead of time, or give the program the right to write."},
	{ReasonBusy, PrivateMemory, "another process was packing into the file for too long",
		"Pack ahead of time, or wait longer for the writer."},
	{ReasonVersion, PrivateMemory, "the file is of a newer xpwc", "Update the program."},
	{ReasonDisk, PrivateMemory, "the disk is full or fails, or the file cannot be mapped",
		"Make room. The log has the error."},
	{ReasonProcess, Waited, "another process was packing into the file", "Pack ahead of time."},
	{ReasonSession, Waited, "another session was packing the same weight", "Pack ahead of time."},
	{ReasonGrowth, Grows, "the file has the same content for such a machine three times or more, and no start finds it",
		"The other reasons have what differs at each start."},
}

// Reasons returns all reasons that there are, each once.
func Reasons() []Reason {
	list := make([]Reason, len(reasons))
	for i := range reasons {
		list[i] = reasons[i].reason
	}
	return list
}

// Kind returns what the reason is one for, "" if it is not one of the constants.
func (r Reason) Kind() ReasonKind { return r.meaning().kind }

// Text returns the reason as a clause for people, with a full stop, and what to do about it as a sentence, if there is
// something to do.
func (r Reason) Text() string {
	m := r.meaning()
	return strings.TrimSuffix(m.because+". "+m.remedy, " ")
}

func (r Reason) meaning() meaning {
	if i := slices.IndexFunc(reasons, func(m meaning) bool { return m.reason == r }); i >= 0 {
		return reasons[i]
	}
	return meaning{reason: r, because: string(r)}
}
