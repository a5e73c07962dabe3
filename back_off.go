package xpwc

import "time"

// A backOff is the time between one try and the next, which doubles.
type backOff struct {
	pause time.Duration
	next  time.Time
	timer *time.Timer
}

const (
	firstPause = time.Second
	lastPause  = time.Minute
)

func (b *backOff) later(do func()) {
	b.stop()
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.next = time.Now().Add(b.pause)
	b.timer = time.AfterFunc(b.pause, do)
}

// due reports whether a try is not too early.
func (b *backOff) due() bool { return !time.Now().Before(b.next) }

func (b *backOff) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

func (b *backOff) succeeded() {
	b.stop()
	*b = backOff{}
}
