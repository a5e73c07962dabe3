package xpwc

import (
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/writer"
)

// LayoutAnswered reports whether XNNPACK has been asked about all families.
func LayoutAnswered() bool { return ask.Answered() }

// ForgetLayout has the next session begin as if XNNPACK had not been asked.
func ForgetLayout() { ask.Forget() }

// Names returns the sorted names of the packed weights that the session's runtime uses, but of unnamed ones.
func (s *Session) Names() []string {
	var names []string
	for _, e := range s.user.Used() {
		if e.Reason != writer.ReasonUnnamed {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tests cut files off and go on at once.
func init() { writer.Arrival = 0 }
