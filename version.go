package xpwc

// Version of this module, of the C library with its headers, and of the tool. Before 1.0 a minor version may change
// interfaces and the file's format.
const Version = "0.6.0"
