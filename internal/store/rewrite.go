package store

import (
	"errors"

	"xpwc/internal/format"
	"xpwc/internal/output"
)

// A Rewriting is a new file next to that of a store, with the records that compaction keeps.
type Rewriting struct {
	old     *Store
	dst     *Store
	commit  *Commit
	pieces  *output.Pieces    // what payloads are written with
	Moved   map[uint64]uint64 // where payloads that were kept are now, by where they were
	Damaged int               // payloads that had a wrong sum
}

// Rewrite makes a new file next to the store's. It has the given records of the loaded index, except records whose
// payloads have a wrong checksum. This process must be the writer of the file. describe returns the layouts of the new
// index. The store may be used meanwhile. If Rewrite fails it removes the new file.
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
	path, err := st.vacant(".compact") // a file there is a killed process's: this one has the writer's lock
	if err != nil {
		return nil, err
	}
	dst := New(path, st.files, 0)
	d, err := st.files.Create(path)
	if err != nil {
		return nil, err
	}
	dst.disk, dst.access = opened(d), writing
	rw = &Rewriting{old: st, dst: dst, pieces: output.NewPieces(d), Moved: map[uint64]uint64{}}
	if err := rw.write(records, describe); err != nil {
		return nil, errors.Join(err, dst.disk.Close(), st.files.Remove(path))
	}
	return rw, nil
}

func (rw *Rewriting) write(records []format.Record, describe func([]format.Record) []format.Layout) error {
	old, dst := rw.old, rw.dst
	mode, err := old.disk.Mode()
	if err == nil {
		err = dst.disk.SetMode(mode) // one user may have packed it for others
	}
	if err != nil {
		return err
	}
	if err := dst.writeHeader(); err != nil {
		return err
	}
	if err := dst.disk.Flush(); err != nil { // after a power failure the header identifies the file
		return err
	}
	dst.slot.Generation = old.slot.Generation
	dst.tail = format.HeaderSize
	copied, err := rw.copy(records)
	if err != nil {
		return err
	}
	if rw.commit, err = dst.PrepareCommit(describe(copied), copied); err != nil {
		return err
	}
	return rw.commit.Write()
}

// copy writes the payloads of records into the new file, and returns the undamaged records. Equal payloads are written
// once, unless they have one key: offsets distinguish the records of a key.
func (rw *Rewriting) copy(records []format.Record) (survivors []format.Record, err error) {
	type content struct {
		sum  format.Digest
		size uint64
	}
	type place struct {
		key    format.Key
		offset uint64
	}
	stored, used := map[content]uint64{}, map[place]bool{}
	survivors = make([]format.Record, 0, len(records))
	for _, r := range records {
		payload := rw.old.Payload(&r)
		offset, copied := rw.Moved[r.Offset] // two records may share a payload
		if !copied {
			if sum, err := rw.dst.disk.Sum(payload); err != nil || sum != r.Sum {
				rw.Damaged++
				continue
			}
			duplicate, ok := stored[content{r.Sum, r.Size}]
			if offset = duplicate; !ok || used[place{r.Key, offset}] {
				if offset, err = rw.append(payload); err != nil {
					return nil, err
				}
			}
			stored[content{r.Sum, r.Size}] = offset
			rw.Moved[r.Offset] = offset
		}
		used[place{r.Key, offset}] = true
		r.Offset = offset
		survivors = append(survivors, r)
	}
	return survivors, rw.pieces.Flush()
}

// append writes a payload after all others, and returns where it is.
func (rw *Rewriting) append(payload []byte) (offset uint64, err error) {
	dst := rw.dst
	offset = format.AlignUp(dst.tail, format.Alignment)
	dst.tail = offset + uint64(len(payload))
	if err := dst.allocate(dst.tail); err != nil {
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
func (rw *Rewriting) ID() [16]byte { return rw.dst.id }

// TakePlace puts the new file in the place of the store's, unless another was put there meanwhile: ErrReplaced. If it
// fails the new file is removed.
func (rw *Rewriting) TakePlace() error {
	old, dst := rw.old, rw.dst
	err := dst.disk.Close()
	if err == nil {
		err = old.inPlace(old.disk)
	}
	if err == nil {
		err = old.files.Rename(dst.path, old.path)
	}
	if err != nil {
		err = errors.Join(err, old.files.Remove(dst.path))
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
