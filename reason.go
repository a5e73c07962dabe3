package xpwc

import (
	"slices"
	"strings"

	"xpwc/internal/mapped"
	"xpwc/internal/writer"
)

// A Reason is why a start takes longer than mapping: why a look-up missed, a packing was compared, a tensor was read,
// packed weights are in private memory, or a session waited. [Reasons] lists all.
type Reason string

// A ReasonKind groups reasons by what they cost.
type ReasonKind string

// The kinds of reasons.
const (
	// Missed: a look-up found nothing, and XNNPACK packed the weight.
	Missed ReasonKind = "miss"
	// Compared: XNNPACK packed the weight, and the result was compared with what the cache has.
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
	// ReasonDisk: reserving or mapping file space failed; Stats.LastError says how.
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
		"The next start finds what this one packs. To spare the first one, pack ahead of time."},
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
	{ReasonStamp, Read, "the file has another stamp of the model, or none: it was copied, moved, or packed elsewhere",
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
