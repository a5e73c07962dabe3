package xpwc

import (
	"log/slog"
	"time"
)

// Options of a [Cache]; nil and the zero value mean the defaults.
type Options struct {
	// ReadOnly: use what is in the file, never write to it. What is not there is packed into private memory. A file
	// without write bits is read-only for every user, root too.
	ReadOnly bool

	// Strict: a damaged file is an error that matches ErrDamaged, of Open, NewSession or Finalize. By default it is
	// renamed to NAME.damaged when there is something to write, and packed afresh; Stats.Damaged has the error.
	Strict bool

	// AllowUnsafeFile: open the file even if it belongs to another user, or others may write to it, or to the
	// directory of a symbolic link that leads to it.
	AllowUnsafeFile bool

	// WriterWait is how long a session that must pack waits for another process that is packing into the same file,
	// before it packs into private memory. 0 means 10 seconds; a negative value does not wait.
	WriterWait time.Duration

	// Prefetch reads the whole file into memory when it is opened, so that bytes the disk cannot give are found then,
	// and counted as damage, instead of ending the process with a signal when they are touched.
	Prefetch bool

	// Verify says how far what is in the file is checked before it is used.
	Verify Verify

	// MaxBytes is the size that the file is kept to, by dropping the entries used longest ago: 0 for no limit. It may
	// be exceeded while a commit is written.
	MaxBytes int64

	// WriteEarly has the system begin to write packed weights while others are packed, each time that 64 MiB are
	// complete, where it can (Linux). That is for programs that pack and wait for Save, and compute nothing meanwhile:
	// what a failing disk loses of it is found by Save. What Save and Close say stays the same.
	WriteEarly bool

	// Progress, if not nil, is given each entry that was packed, on the thread that creates the runtime. It must not
	// call the cache or the session.
	Progress func(Progress)

	// Logger, if not nil, is given what an operator may want to know: a file that is damaged, set aside, or replaced
	// by another process; waiting for another process that packs; packing into private memory, once for each Reason
	// and session; a damaged payload, and how many sessions use it; a source that changed while it was packed; packed
	// weights that the disk lost; commits, with their generation, entries, bytes and duration; compactions. What goes
	// on without harm is at slog.LevelInfo, the rest at slog.LevelWarn; the path is the attribute cache. Look-ups that
	// hit cost nothing.
	//
	// The handler is called from a goroutine of its own that holds no lock, one event after the other, so that it may
	// use the cache, but must not close it: Close waits for events to be handled. Each handle of a cache has its own
	// logger: what sessions of one handle meet goes to that one, what concerns the file to all.
	Logger *slog.Logger
}

// Verify says how far the packed weights in the file are checked. Whatever it is, all of the file's structure is
// checked with its checksums before it is used, when the file is opened or, of a file of many thousand entries, when
// a look-up reads it, and whatever packing compares is compared to the byte.
type Verify int

const (
	// VerifyInBackground (the default) checks the checksum of each payload that a session uses once in this process,
	// some time after Session.Finalize, by a thread of the lowest priority that the system has. It reads the file, and
	// maps nothing. A runtime may have computed with a damaged one by then: Stats.DamagedPayloads and Options.Logger
	// report it, the next session packs it afresh, and the file is rid of it. Stats.Unverified has what is yet to be
	// checked.
	VerifyInBackground Verify = iota
	// VerifyOnUse checks a payload's checksum when it is found first in this process. A damaged one is packed afresh.
	VerifyOnUse
	// VerifyRepack answers the first look-up of each payload as a miss and compares what XNNPACK packs. A different one
	// is replaced. It costs what packing costs, and is for finding out, not for every start.
	VerifyRepack
	// VerifyStructure does not read payloads.
	VerifyStructure
)

// Progress is about one entry that was packed while a runtime is created.
type Progress struct {
	// Name of the entry: the weights' name directly followed by the bias' name; empty for unnamed weights.
	Name string
	// Session that packed it, of several that pack at the same time. Its methods must not be called here.
	Session *Session
	// Bytes packed for this entry.
	Bytes int64
	// Done and Total count bytes of unpacked tensors of the session: those that packing has consumed, or found in the
	// cache, and those that were loaded, without the ones loaded with Retain. Total is complete once all were loaded.
	// What XNNPACK packs without naming it, as the bias of operators with dynamically quantised input, is never Done.
	Done, Total int64
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.WriterWait == 0 {
		v.WriterWait = 10 * time.Second
	}
	return v
}

// same reports whether two handles of one path can share a core: the function and the logger are each handle's own.
func (o Options) same(other Options) bool {
	return o.Prefetch == other.Prefetch && o.Verify == other.Verify && o.MaxBytes == other.MaxBytes &&
		o.ReadOnly == other.ReadOnly && o.Strict == other.Strict && o.AllowUnsafeFile == other.AllowUnsafeFile &&
		o.WriterWait == other.WriterWait && o.WriteEarly == other.WriteEarly
}
