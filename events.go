package xpwc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// An eventLog passes on to Options.Logger what happens to a cache. Events are queued where they happen, whatever locks are
// held there, and handled by a goroutine that holds none and ends when the queue is empty.
type eventLog struct {
	cache *Cache

	mu      sync.Mutex // nothing else is locked while it is held
	queue   []slog.Record
	running bool
	idle    *sync.Cond // the queue is empty and all of it handled
}

func newEventLog(c *Cache) *eventLog {
	l := &eventLog{cache: c}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// add queues an event, with the time it is now. A cache without a logger has none.
func (l *eventLog) add(level slog.Level, message string, attributes ...slog.Attr) {
	if l.cache.options.Logger == nil {
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
			l.cache.mu.Lock()
			defer l.cache.mu.Unlock()
			l.cache.note(fmt.Errorf("panic in Options.Logger: %v", p))
		}
	}()
	handler := l.cache.options.Logger.Handler()
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

// noticeReplacement tells of a file that is no longer the one at the path, if it was one.
func (c *Cache) noticeReplacement(was [16]byte) {
	if was != [16]byte{} && was != c.store.id {
		c.events.add(slog.LevelInfo, "cache file was replaced by another process")
	}
}

// tellPrivate tells of the first packing into private memory for a reason, of each session.
func (s *Session) tellPrivate(e *entry) {
	if s.toldPrivate[e.reason] {
		return
	}
	if s.toldPrivate == nil {
		s.toldPrivate = map[Reason]bool{}
	}
	s.toldPrivate[e.reason] = true
	c := s.cache
	level := slog.LevelWarn
	attributes := []slog.Attr{slog.String("reason", string(e.reason))}
	switch {
	case e.reason == ReasonUnnamed, c.options.ReadOnly: // as the host has it
		level = slog.LevelInfo
	case e.reason != ReasonBusy && c.stats.LastError != nil:
		attributes = append(attributes, slog.Any("error", c.stats.LastError))
	}
	c.events.add(level, "packing into private memory", attributes...)
}
