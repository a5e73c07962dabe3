// Package npy reads the array in a NumPy file (.npy): the inputs that the tool takes, and the answers that tests
// compare.
//
// # The format
//
// A file is the six bytes "\x93NUMPY", a version of two bytes, the length of the header (2 bytes in version 1.0, 4
// bytes in 2.0 and 3.0, little-endian), the header, and the array's bytes. The header is a Python dictionary in ASCII
// (UTF-8 in version 3.0) of three keys: descr, the type of the elements; fortran_order, whether the first dimension
// is the innermost; and shape, a tuple. Spaces and a line feed fill it up, so that the bytes begin at a multiple of
// 64, or of 16 before NumPy 1.14.
//
// The format is specified in NumPy's documentation of numpy.lib.format and by its implementation there, 2.4. Like
// NumPy, this package refuses headers of more than 10,000 bytes, and dictionaries with more or fewer keys. It reads
// only little-endian numbers and booleans, and only row by row. NumPy has no bfloat16: an array of uint16 can hold its
// bits.
//
// Files may be untrusted: a damaged one is an error, never an access outside its bytes.
package npy
