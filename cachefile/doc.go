// Package cachefile looks into files of packed weights, and writes new ones of what is in them. It reads the files
// that package xpwc writes (docs/format.md) and those that ExecuTorch's XNNWeightsCache writes (pull request 19988). It
// needs neither XNNPACK nor cgo.
//
// A [File] is opened for reading only and without a lock, also while others write to it: it shows the generation that
// was in force when it was opened, whose bytes nobody changes. Nothing that is read is trusted: what is damaged is an
// error that says where. [Verify] checks everything and lists all that is wrong. A cache that is part of another
// file, beside the weights that it was packed from, or that is no file at all, is read with [NewFile]. Nothing is
// mapped: bytes are read when they are asked for.
//
//	f, err := cachefile.Open("model.xpwc")
//	for entry, err := range f.Entries() { … }
//	err = f.Write("mine.xpwc", func(e cachefile.Entry) bool { return e.Layout == here }, cachefile.WriteOptions{})
package cachefile
