//go:build unix && !linux

package fd

// needed is how many descriptors the poller takes at most: the queue's, and a pipe where it is woken through one.
const needed = 3
