// Package htmlreport makes a page about a cache file: HTML in one piece, which asks for nothing from anywhere. It says
// what the bytes of the file are by layer, for which layouts they were packed, what is stored once for several, what is
// dead, and what each commit added. It says nothing that the file does not record.
//
// Everything on the page can be read without the script in it, which only zooms into the treemap. Names come out of
// files that anybody may have written: they are escaped, what is not printable in them is replaced, and what is too
// long is shortened. A page has at most [MaxBytes] bytes: what is small is put together, and tables end.
package htmlreport
