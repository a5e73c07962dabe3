package xpwc

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// An eventLog passes on to an Options.Logger what happens to a cache: that of all its handles with this logger. Events
// are queued where they happen, whatever locks are held there, and handled by a goroutine that holds none and ends when
// the queue is empty.
type eventLog struct {
	logger  *slog.Logger // nil: nothing is passed on
	cache   *core
	handles int // under eventLogs.mu

	mu      sync.Mutex // nothing else is locked while it is held
	queue   []slog.Record
	running bool
	idle    *sync.Cond      // the queue is empty and all of it handled
	private map[Reason]bool // that packing into private memory was reported for
}

// logTo has a logger given what happens to the cache, for one more handle, until detach.
func (c *core) logTo(logger *slog.Logger) *eventLog {
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	for _, l := range c.events.logs {
		if l.logger == logger {
			l.handles++
			return l
		}
	}
	l := &eventLog{logger: logger, cache: c, handles: 1, private: map[Reason]bool{}}
	l.idle = sync.NewCond(&l.mu)
	c.events.logs = append(c.events.logs, l)
	return l
}

// detach gives the log up for one handle.
func (l *eventLog) detach() {
	all := &l.cache.events
	all.mu.Lock()
	defer all.mu.Unlock()
	if l.handles--; l.handles == 0 {
		all.logs = slices.DeleteFunc(all.logs, func(other *eventLog) bool { return other == l })
	}
}

// eventLogs are those of all handles of a cache, one for each logger.
type eventLogs struct {
	mu     sync.Mutex // eventLog.mu may be locked while it is held, and nothing else
	logs   []*eventLog
	failed error // a panic in a logger, the last
}

// add queues an event for each logger.
func (l *eventLogs) add(level slog.Level, message string, attributes ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.logs {
		log.add(level, message, attributes...)
	}
}

// failure returns the last panic in a logger, or nil.
func (l *eventLogs) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// add queues an event, with the time it is now. Without a logger there is none.
func (l *eventLog) add(level slog.Level, message string, attributes ...slog.Attr) {
	if l.logger == nil {
		return
	}
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(slog.String("cache", l.cache.name()))
	r.AddAttrs(attributes...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, r)
	if !l.running {
		l.running = true
		go l.deliver()
	}
}

func (l *eventLog) deliver() {
	done := false
	defer func() {
		if !done { // the handler ended the goroutine, see runtime.Goexit
			go l.deliver()
		}
	}()
	for {
		r, ok := l.next()
		if !ok {
			done = true
			return
		}
		l.handle(r)
	}
}

// next takes the next event out of the queue. Without one, the goroutine that delivers them ends.
func (l *eventLog) next() (r slog.Record, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.running = nil, false
		l.idle.Broadcast()
		return slog.Record{}, false
	}
	r = l.queue[0]
	l.queue = l.queue[1:]
	return r, true
}

// handle calls the host's handler. Its panic must not end a host that runs models.
func (l *eventLog) handle(r slog.Record) {
	defer func() {
		if p := recover(); p != nil {
			all := &l.cache.events
			all.mu.Lock()
			defer all.mu.Unlock()
			all.failed = fmt.Errorf("panic in Options.Logger: %v", p)
		}
	}()
	handler := l.logger.Handler()
	if ctx := context.Background(); handler.Enabled(ctx, r.Level) {
		_ = handler.Handle(ctx, r) // a logger that fails has nowhere to say so
	}
}

// wait returns when all events so far are handled.
func (l *eventLog) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.running {
		l.idle.Wait()
	}
}

// firstPrivate reports whether no packing into private memory was reported for the reason before.
func (l *eventLog) firstPrivate(why Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.private[why]
	l.private[why] = true
	return !before
}
