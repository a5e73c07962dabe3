// Package npy gives the arrays in NumPy's .npy files, a directory of them or a single one, to sessions: a [Dir] is an
// [xpwc.DataMap].
//
//	weights, err := npy.Open("weights")                 // maps and checks every .npy in it, reads no array
//	session, err := cache.NewSession(weights)
//	packed := xpwc.PackedAs(packing)                    // of the node, see package xnnpack
//	kernel, err := session.Load("layer.0/kernel", packed) // weights/layer.0/kernel.npy
//	… create the runtime, session.Finalize(), run it, delete it, session.Close()
//	err = weights.Close()
//
// # The format
//
// A file is the six bytes "\x93NUMPY", a version of two bytes, the length of the header (2 bytes in version 1.0, 4
// bytes in 2.0 and 3.0, little-endian), the header, and the array's bytes. The header is a Python dictionary in ASCII
// (UTF-8 in version 3.0) of three keys: descr, the type of the elements; fortran_order, whether the first dimension
// is the innermost; and shape, a tuple. Spaces and a line feed fill it up, so that the bytes begin at a multiple of
// 64, or of 16 before NumPy 1.14.
//
// The format is specified in NumPy's documentation of numpy.lib.format and by its implementation there, 2.4. As that
// does, this package refuses headers of more than 10,000 bytes, and dictionaries with more or fewer keys. Only
// little-endian numbers and booleans are read, and only row by row. NumPy has no bfloat16: arrays of uint16 are taken
// for one's bits.
//
// # Untrusted files
//
// All that a file says is checked before it is used: no file makes this package read outside its mapping. A file that
// is cut off while it is mapped ends the process that reads the missing pages. Every file is a mapping of its own, of
// which systems allow a process so many: 65,530 on Linux unless vm.max_map_count says otherwise.
package npy
