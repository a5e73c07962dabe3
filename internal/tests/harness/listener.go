package harness

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"xpwc"
)

// An Event is a record as a handler saw it.
type Event struct {
	Level      slog.Level
	Message    string
	Attributes map[string]slog.Value
}

// A Listener is a handler that keeps what it is given, and calls the host then.
type Listener struct {
	Level     slog.Level
	OnMessage func(message string)

	mu     sync.Mutex
	events []Event
	slow   []Event // loads that took longer than mapping, which are apart
}

func (l *Listener) Options() *xpwc.Options { return &xpwc.Options{Logger: slog.New(l)} }

func (l *Listener) Enabled(_ context.Context, level slog.Level) bool { return level >= l.Level }

func (l *Listener) Handle(_ context.Context, r slog.Record) error {
	e := Event{r.Level, r.Message, map[string]slog.Value{}}
	r.Attrs(func(a slog.Attr) bool { e.Attributes[a.Key] = a.Value; return true })
	l.mu.Lock()
	if r.Message == "a load took longer than mapping" {
		l.slow = append(l.slow, e)
		l.mu.Unlock()
		return nil
	}
	l.events = append(l.events, e)
	l.mu.Unlock()
	if l.OnMessage != nil {
		l.OnMessage(r.Message)
	}
	return errors.New("a logger that fails harms nothing")
}

func (l *Listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *Listener) WithGroup(string) slog.Handler { return l }

// Events returns the events so far, once all of them are handled, and forgets them.
func (l *Listener) Events(c *xpwc.Cache) []Event {
	AwaitEvents(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	return events
}

func (l *Listener) Messages(c *xpwc.Cache) (messages []string) {
	for _, e := range l.Events(c) {
		messages = append(messages, e.Message)
	}
	return messages
}
