// Package events passes the events of a cache on to the loggers of its handles. Events are queued where they happen,
// whatever locks are held there, and handled one after the other, each by a goroutine that holds none.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Logs has one log for each logger of a cache's handles.
type Logs struct {
	Cache string // what the cache is called, the attribute of all events

	mu     sync.Mutex // Log.mu may be locked while it is held, and nothing else
	logs   []*Log
	failed error // a panic in a logger, the last
}

// A Log has the events for all handles of a cache that have one logger.
type Log struct {
	logger  *slog.Logger // nil: nothing is passed on
	logs    *Logs
	handles int // under Logs.mu

	mu    sync.Mutex    // nothing else is locked while it is held
	queue []slog.Record // the first one is being handled
	idle  *sync.Cond    // the queue is empty
}

// Open returns the log of a logger, which may be nil, for one more handle, until Close.
func (l *Logs) Open(logger *slog.Logger) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.logs {
		if log.logger == logger {
			log.handles++
			return log
		}
	}
	log := &Log{logger: logger, logs: l, handles: 1}
	log.idle = sync.NewCond(&log.mu)
	l.logs = append(l.logs, log)
	return log
}

// Add queues an event for each logger.
func (l *Logs) Add(level slog.Level, message string, attributes ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.logs {
		log.Add(level, message, attributes...)
	}
}

// Err returns the last panic in a logger, or nil.
func (l *Logs) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Add queues an event, with the time it is now. Without a logger there is none.
func (l *Log) Add(level slog.Level, message string, attributes ...slog.Attr) {
	if l.logger == nil {
		return
	}
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(slog.String("cache", l.logs.Cache))
	r.AddAttrs(attributes...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, r)
	if len(l.queue) == 1 {
		go l.deliver(r)
	}
}

// deliver handles the first event of the queue.
func (l *Log) deliver(first slog.Record) {
	defer l.delivered() // also if the handler ends the goroutine, see runtime.Goexit
	l.handle(first)
}

// delivered takes the first event out of the queue, and has the next one handled.
func (l *Log) delivered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
		l.idle.Broadcast()
		return
	}
	go l.deliver(l.queue[0])
}

// handle calls the host's handler. Its panic must not end a host that runs models.
func (l *Log) handle(r slog.Record) {
	defer func() {
		if p := recover(); p != nil {
			l.logs.mu.Lock()
			defer l.logs.mu.Unlock()
			l.logs.failed = fmt.Errorf("panic in Options.Logger: %v", p)
		}
	}()
	handler := l.logger.Handler()
	if ctx := context.Background(); handler.Enabled(ctx, r.Level) {
		_ = handler.Handle(ctx, r) // an error has nowhere to go
	}
}

// Wait returns when all events so far are handled.
func (l *Log) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		l.idle.Wait()
	}
}

// Close gives the log up for one handle, and waits until all events so far are handled.
func (l *Log) Close() {
	l.logs.detach(l)
	l.Wait()
}

func (l *Logs) detach(log *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if log.handles--; log.handles == 0 {
		l.logs = slices.DeleteFunc(l.logs, func(other *Log) bool { return other == log })
	}
}
