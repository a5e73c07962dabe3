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
// are queued where they happen, whatever locks are held there, and handled one after the other, each by a goroutine
// that holds none.
type eventLog struct {
	logger  *slog.Logger // nil: nothing is passed on
	cache   *core
	handles int // under eventLogs.mu

	mu    sync.Mutex    // nothing else is locked while it is held
	queue []slog.Record // the first one is being handled
	idle  *sync.Cond    // the queue is empty
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
	l := &eventLog{logger: logger, cache: c, handles: 1}
	l.idle = sync.NewCond(&l.mu)
	c.events.logs = append(c.events.logs, l)
	return l
}

// detach gives the log up for one handle.
func (l *eventLog) detach() {
	logs := &l.cache.events
	logs.mu.Lock()
	defer logs.mu.Unlock()
	if l.handles--; l.handles == 0 {
		logs.logs = slices.DeleteFunc(logs.logs, func(x *eventLog) bool { return x == l })
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
	if len(l.queue) == 1 {
		go l.deliver(r)
	}
}

// deliver handles the first event of the queue.
func (l *eventLog) deliver(first slog.Record) {
	defer l.delivered() // also if the handler ends the goroutine, see runtime.Goexit
	l.handle(first)
}

// delivered takes the first event out of the queue, and has the next one handled.
func (l *eventLog) delivered() {
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
func (l *eventLog) handle(r slog.Record) {
	defer func() {
		if p := recover(); p != nil {
			logs := &l.cache.events
			logs.mu.Lock()
			defer logs.mu.Unlock()
			logs.failed = fmt.Errorf("panic in Options.Logger: %v", p)
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
	for len(l.queue) > 0 {
		l.idle.Wait()
	}
}
