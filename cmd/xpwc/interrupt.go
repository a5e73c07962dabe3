package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
)

// interrupts are the signals that end the program: Ctrl-C, a service manager, and the end of the terminal or its
// connection.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// A job is one run of a command, which an interrupt ends. An interrupt removes unfinished files and ends the program
// at once. If the command watches its context itself, the program waits for it to return. Files already at their paths
// stay.
type job struct {
	signals chan os.Signal
	cancel  context.CancelFunc
	stderr  io.Writer
	result  result // of the command, which sets it; it is read when that has returned

	mu      sync.Mutex // held for ever when the program ends, so that no file is moved to its path any more
	undo    []*func()
	placed  bool   // a file is at its path
	waits   bool   // for the command to return
	remains string // files that an interrupted command leaves, or ""
}

type jobKey struct{}

// newJob returns a job, and the context in which commands find it, which an interrupt cancels. Progress and notes go to
// stderr.
func newJob(stderr io.Writer) (context.Context, *job) {
	j := &job{signals: make(chan os.Signal, 1), stderr: stderr}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	return context.WithValue(ctx, jobKey{}, j), j
}

// jobOf returns the job of a command's context.
func jobOf(ctx context.Context) *job { return ctx.Value(jobKey{}).(*job) }

// newProgress shows how far a command is with something.
func newProgress(ctx context.Context, task string) *terminal.Progress {
	return terminal.NewProgress(jobOf(ctx).stderr, task)
}

// oneInterrupt is how long after a signal others are the same interrupt: timeout(1) signals a program and then its
// group, and service managers send several signals.
const oneInterrupt = time.Second

// listen makes the job receive interrupts. Signals that the program ignores, in the background of a shell or by nohup,
// stay ignored. A second interrupt ends the program at once.
func (j *job) listen() {
	for _, s := range interrupts {
		if !signal.Ignored(s) {
			signal.Notify(j.signals, s)
		}
	}
}

// onInterrupt makes an interrupt call undo, unless done was called first. undo may run concurrently with the work that
// it undoes.
func (j *job) onInterrupt(undo func()) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.undo = append(j.undo, &undo)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.undo = slices.DeleteFunc(j.undo, func(u *func()) bool { return u == &undo })
	}
}

// waitFor makes an interrupt wait for the command, which watches its context itself. remains describes the files that
// an interrupt leaves, or is "".
func (j *job) waitFor(remains string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waits, j.remains = true, remains
}

// place calls do, which moves a file to its path. After that an interrupt is too late.
func (j *job) place(do func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := do()
	j.placed = j.placed || err == nil
	return err
}

// interrupt undoes the command's files. It reports whether the program ends now; otherwise it waits for the command.
func (j *job) interrupt() (ends bool) {
	time.AfterFunc(oneInterrupt, func() {
		if len(j.signals) > 0 {
			<-j.signals
		}
		<-j.signals
		os.Exit(exitInterrupted)
	})
	j.cancel()
	j.mu.Lock()
	if j.placed || j.waits {
		j.mu.Unlock()
		return false
	}
	for i := len(j.undo) - 1; i >= 0; i-- {
		(*j.undo[i])()
	}
	return true
}

// outcome is the result of a command.
type outcome struct {
	command *cobra.Command
	result  result
	err     error
}

// run runs the command, and returns its outcome, or errInterrupted if it was interrupted first. After that an
// interrupt ends the program at once: only printing remains, and the reader may be gone.
func (j *job) run(command func() outcome) outcome {
	done := make(chan outcome, 1)
	go func() { done <- command() }()
	select {
	case o := <-done:
		go func() {
			<-j.signals
			os.Exit(exitInterrupted)
		}()
		return o
	case <-j.signals:
	}
	if j.interrupt() {
		return outcome{err: errInterrupted}
	}
	o := <-done
	if o.err != nil && !j.placed {
		o.err = errInterrupted
	}
	return o
}

// String describes the files that an interrupt left.
func (j *job) String() string {
	if j.remains != "" {
		return fmt.Sprintf("interrupted; %s", j.remains)
	}
	return "interrupted; nothing was written"
}

// A result is a command's result, a struct: its members with --json, else its text. Standard output keeps the errors
// of printing it.
type result interface{ print(w io.Writer) }
