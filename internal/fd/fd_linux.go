package fd

// needed is how many descriptors the poller takes: epoll's and an event's.
const needed = 2
