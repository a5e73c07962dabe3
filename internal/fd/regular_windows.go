package fd

// atOnce is for systems that have pipes at paths.
const atOnce = 0
