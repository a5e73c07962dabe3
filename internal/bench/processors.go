package bench

import "fmt"

// A use is what the machine's processors have done so far, in seconds of one processor.
type use struct {
	busy, all float64 // of all programs; with the time in which there was nothing to do
	own       float64 // of this process and of those that it started and that have ended
}

// muchOfOthers is the part of the processors from which on other programs show in what is measured.
const muchOfOthers = 0.2

// disturbed says how much of the processors others had between two uses; "" if that was little, or is not known.
func disturbed(before, after use) string {
	all := after.all - before.all
	others := after.busy - before.busy - (after.own - before.own)
	if all <= 0 || others < muchOfOthers*all {
		return ""
	}
	return fmt.Sprintf("Other programs used %.0f %% of the processors meanwhile.\n"+
		"On a machine at rest all of this takes less time.\n", 100*min(others/all, 1))
}
