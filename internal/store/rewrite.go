package store

import (
	"errors"

	"xpwc/internal/format"
	"xpwc/internal/output"
)

// A Rewriting is a new file beside the one of a store, made of what that is to keep.
type Rewriting struct {
	old     *Store
	made    *Store
	commit  *Commit
	pieces  *output.Pieces    // what payloads are written with
	Moved   map[uint64]uint64 // where payloads that were kept are now, by where they were
	Damaged int               // payloads that had a wrong sum
}

// Rewrite makes a new file beside the store's, of records that the loaded index has, without those whose payloads have
// a wrong sum. This process must be the writer of the file. describe says what else the index is to have. The store may
// be used meanwhile. If Rewrite fails it leaves nothing there.
func (st *Store) Rewrite(records []format.Record, describe func([]format.Record) []format.Layout) (
	rw *Rewriting, err error) {
	if err := st.hold(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			st.letGo()
		}
	}()
	if err := st.inPlace(st.disk); err != nil {
		return nil, err
	}
	path, err := st.vacant(".compact") // what is there a killed process left: the writer's lock is ours
	if err != nil {
		return nil, err
	}
	made := New(path, st.files, 0)
	d, err := st.files.Create(path)
	if err != nil {
		return nil, err
	}
	made.disk, made.access = opened(d), writing
	rw = &Rewriting{old: st, made: made, pieces: output.NewPieces(d), Moved: map[uint64]uint64{}}
	if err := rw.write(records, describe); err != nil {
		return nil, errors.Join(err, made.disk.Close(), st.files.Remove(path))
	}
	return rw, nil
}

func (rw *Rewriting) write(records []format.Record, describe func([]format.Record) []format.Layout) error {
	old, made := rw.old, rw.made
	mode, err := old.disk.Mode()
	if err == nil {
		err = made.disk.SetMode(mode) // one user may have packed it for others
	}
	if err != nil {
		return err
	}
	if err := made.writeHeader(); err != nil {
		return err
	}
	if err := made.disk.Flush(); err != nil { // whatever a power failure leaves of it says whose it is
		return err
	}
	made.slot.Generation = old.slot.Generation
	made.tail = format.HeaderSize
	kept, err := rw.copy(records)
	if err != nil {
		return err
	}
	if rw.commit, err = made.PrepareCommit(describe(kept), kept); err != nil {
		return err
	}
	return rw.commit.Write()
}

// copy writes the payloads of records into the new file, and returns those that are sound. Equal payloads are written
// once, unless they have one key: under that an offset distinguishes records.
func (rw *Rewriting) copy(records []format.Record) (kept []format.Record, err error) {
	type content struct {
		sum  format.Digest
		size uint64
	}
	type place struct {
		key    format.Key
		offset uint64
	}
	stored, taken := map[content]uint64{}, map[place]bool{}
	kept = make([]format.Record, 0, len(records))
	for _, r := range records {
		payload := rw.old.Payload(&r)
		at, copied := rw.Moved[r.Offset] // two records may share a payload
		if !copied {
			if sum, err := rw.made.disk.Sum(payload); err != nil || sum != r.Sum {
				rw.Damaged++
				continue
			}
			equal, known := stored[content{r.Sum, r.Size}]
			if at = equal; !known || taken[place{r.Key, at}] {
				if at, err = rw.append(payload); err != nil {
					return nil, err
				}
			}
			stored[content{r.Sum, r.Size}] = at
			rw.Moved[r.Offset] = at
		}
		taken[place{r.Key, at}] = true
		r.Offset = at
		kept = append(kept, r)
	}
	return kept, rw.pieces.Flush()
}

// append writes a payload after all others, and returns where it is.
func (rw *Rewriting) append(payload []byte) (offset uint64, err error) {
	made := rw.made
	offset = format.AlignUp(made.tail, format.Alignment)
	made.tail = offset + uint64(len(payload))
	if err := made.allocate(made.tail); err != nil {
		return 0, err
	}
	if err = rw.pieces.MoveTo(int64(offset)); err == nil {
		_, err = rw.pieces.Write(payload)
	}
	return offset, err
}

// Size returns how many bytes the new file has.
func (rw *Rewriting) Size() uint64 { return rw.commit.slot.End }

// ID returns the identity of the new file.
func (rw *Rewriting) ID() [16]byte { return rw.made.id }

// TakePlace puts the new file in the place of the store's, unless another was put there meanwhile: ErrReplaced. If it
// fails the new file is removed.
func (rw *Rewriting) TakePlace() error {
	old, made := rw.old, rw.made
	err := made.disk.Close()
	if err == nil {
		err = old.inPlace(old.disk)
	}
	if err == nil {
		err = old.files.Rename(made.path, old.path)
	}
	if err != nil {
		err = errors.Join(err, old.files.Remove(made.path))
		old.letGo()
	}
	return err
}

// Follow has the store load the file that took the place of its own, whose lock it gives up.
func (rw *Rewriting) Follow() error {
	st := rw.old
	defer st.letGo()
	return errors.Join(st.files.SyncDir(st.path), st.EndWriting(), st.Reopen())
}
