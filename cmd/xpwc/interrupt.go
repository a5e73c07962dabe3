package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// errInterrupted: the user, or the system, wants the program to end.
var errInterrupted = errors.New("interrupted")

// interrupts are what ends the program: Ctrl-C, a service manager, and the end of the terminal or of the connection
// it is in.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// A job is a run of the program as far as an interrupt concerns it. An interrupt ends the program at once, after
// undoing what would be left; or, where a command looks at its context itself, when it has come to its end. It comes
// too late for what is in its place.
type job struct {
	signals chan os.Signal
	cancel  context.CancelFunc

	mu     sync.Mutex // kept once the program ends: nothing is put in its place any more
	undo   []*func()
	placed bool
	heeds  bool
	kept   string // what stays of a command that is interrupted, or ""
}

type jobKey struct{}

// newJob returns the job of this program's run, and the context that commands find it by, which an interrupt ends.
func newJob() (context.Context, *job) {
	j := &job{signals: make(chan os.Signal, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	return context.WithValue(ctx, jobKey{}, j), j
}

// jobOf returns the job of a command's context.
func jobOf(ctx context.Context) *job { return ctx.Value(jobKey{}).(*job) }

// listen has interrupts come to the job. What ignores them, in the background of a shell or by nohup, goes on doing
// so. Asked again, the program ends at once.
func (j *job) listen() {
	for _, s := range interrupts {
		if !signal.Ignored(s) {
			signal.Notify(j.signals, s)
		}
	}
}

// onInterrupt has do called if the program is interrupted before done is called. It may be called beside what it
// undoes.
func (j *job) onInterrupt(do func()) (done func()) {
	done, _ = j.making(func() error { return nil }, do)
	return done
}

// making calls do, and has undo called if the program is interrupted before done is called. An interrupt waits for
// do. After an error there is nothing to undo.
func (j *job) making(do func() error, undo func()) (done func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := do(); err != nil {
		return nil, err
	}
	j.undo = append(j.undo, &undo)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for i, u := range j.undo {
			if u == &undo {
				j.undo = append(j.undo[:i:i], j.undo[i+1:]...)
				return
			}
		}
	}, nil
}

// heed says that the command looks at its context itself, and that it is to be waited for. kept says what an
// interrupt leaves all the same, or is "".
func (j *job) heed(kept string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heeds, j.kept = true, kept
}

// place calls what puts a file in its place. Once it has, an interrupt comes too late.
func (j *job) place(do func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := do()
	j.placed = j.placed || err == nil
	return err
}

// interrupt undoes what the command has made. It reports whether the program ends here; else the command is to be
// waited for.
func (j *job) interrupt() (ends bool) {
	signal.Reset(interrupts...)
	j.cancel()
	j.mu.Lock()
	if j.placed || j.heeds {
		j.mu.Unlock()
		return false
	}
	for i := len(j.undo) - 1; i >= 0; i-- {
		(*j.undo[i])()
	}
	return true
}

// outcome is what a command came to.
type outcome struct {
	command *cobra.Command
	err     error
}

// run runs the command, and returns its outcome, or errInterrupted if it was interrupted before it had come to one.
func (j *job) run(command func() outcome) outcome {
	done := make(chan outcome, 1)
	go func() { done <- command() }()
	select {
	case o := <-done:
		return o
	case <-j.signals:
	}
	if j.interrupt() {
		return outcome{err: errInterrupted}
	}
	o := <-done
	j.mu.Lock()
	defer j.mu.Unlock()
	if o.err != nil && !j.placed {
		o.err = errInterrupted
	}
	return o
}

// String says what an interrupt left.
func (j *job) String() string {
	if j.kept != "" {
		return fmt.Sprintf("interrupted; %s", j.kept)
	}
	return "interrupted; nothing was written"
}
