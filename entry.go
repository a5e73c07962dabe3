package xpwc

import "xpwc/internal/format"

// An entry is one packed payload in memory.
type entry struct {
	record format.Record // without Sum and digests until it is committed
	data   []byte
	region *region
	reason Reason   // why it is private; "" for an entry of the cache
	file   [16]byte // identity of the file it lies in

	sessions int // that use it

	// Of an entry packed by this process, until its session is finalized: where its stamps and digests come from.
	kernel, bias *source
	fresh        bool // not in the loaded index
	committed    bool // on the disk
	suspect      bool // damaged, or its file is: for the sessions alone that use it already
	changed      bool // its flags, stamps or digests changed since it was committed
	moved        bool // a compaction copied it: the file has it elsewhere than data
	verified     bool // the payload was compared with a packing, or with its checksum
}

// name returns what the entry is called in ExecuTorch's trailer and in what Session.Finalize returns.
func (e *entry) name() string { return e.record.Kernel + e.record.Bias }
