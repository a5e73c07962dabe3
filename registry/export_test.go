package registry

// OnThisMachine is onThisMachine for tests.
var OnThisMachine = onThisMachine
