package harness

import (
	"xpwc/internal/ask"
	"xpwc/internal/writer"
)

// LayoutAnswered reports whether XNNPACK has been asked about all families.
func LayoutAnswered() bool { return ask.Answered() }

// ForgetLayout has the next session begin as if XNNPACK had not been asked.
func ForgetLayout() { ask.Forget() }

// Tests cut files off and go on at once.
func init() { writer.Arrival = 0 }
