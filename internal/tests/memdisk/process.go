package memdisk

import (
	"errors"
	"io/fs"

	"xpwc/internal/store"
)

// A Process is what one process sees of the directory. It can be killed, and can be made to forget a flush.
type Process struct {
	dir *Dir

	KillAt int    // the call at which it is killed, counted from 1; 0: none
	OnCall func() // called before each call that changes something, one call at a time

	Fails func(path string) *FlushFailure // how a flush fails, or nil
	// Forgets reports whether the process omits a flush after a step: of a path, its Payloads, or "directory".
	Forgets func(flush, prev string) bool

	calls int
	dead  bool
	disks []*Disk
}

// Killed reports whether the process was killed.
func (p *Process) Killed() bool { return p.dead }

// ErrKilled: the process was killed before.
var ErrKilled = errors.New("the process was killed")

// enter begins a call that changes something. The caller unlocks the directory if there is no error.
func (p *Process) enter() error {
	p.dir.mu.Lock()
	if p.OnCall != nil {
		p.OnCall()
	}
	p.calls++
	if p.calls == p.KillAt {
		p.dead = true
		for _, d := range p.disks {
			d.unlock()
		}
	}
	p.dir.notice()
	if p.dead {
		p.dir.mu.Unlock()
		return ErrKilled
	}
	return nil
}

// look begins a call that changes nothing.
func (p *Process) look() error {
	p.dir.mu.Lock()
	if p.dead {
		p.dir.mu.Unlock()
		return ErrKilled
	}
	return nil
}

// flushing reports whether a flush is to be done.
func (p *Process) flushing(path string) bool {
	steps := p.dir.steps
	return p.Forgets == nil || len(steps) == 0 || !p.Forgets(path, steps[len(steps)-1].call)
}

func (p *Process) opened(i *inode, path string) store.File {
	d := &Disk{process: p, inode: i, path: path}
	p.disks = append(p.disks, d)
	return d
}

func (p *Process) Open(path string, _ bool) (store.File, error) {
	if err := p.look(); err != nil {
		return nil, err
	}
	defer p.dir.mu.Unlock()
	i := p.dir.names[path]
	if i == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return p.opened(i, path), nil
}

func (p *Process) Create(path string) (store.File, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.dir.mu.Unlock()
	if p.dir.names[path] != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	i := p.dir.add()
	p.dir.names[path] = i
	p.dir.note(step{call: "create " + path, names: []nameChange{{path, i}}})
	return p.opened(i, path), nil
}

func (p *Process) Rename(oldPath, newPath string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	i := p.dir.names[oldPath]
	if i == nil {
		return &fs.PathError{Op: "rename", Path: oldPath, Err: fs.ErrNotExist}
	}
	delete(p.dir.names, oldPath)
	p.dir.names[newPath] = i
	p.dir.note(step{call: "rename " + oldPath + " to " + newPath, names: []nameChange{{oldPath, nil}, {newPath, i}}})
	return nil
}

func (p *Process) Remove(path string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	if p.dir.names[path] != nil {
		delete(p.dir.names, path)
		p.dir.note(step{call: "remove " + path, names: []nameChange{{path, nil}}})
	}
	return nil
}

func (p *Process) SyncDir(string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	if p.flushing("directory") {
		p.dir.note(step{call: "flush the directory", syncDir: true})
	}
	return nil
}
