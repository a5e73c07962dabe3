// Package stock has LiteRT's own code pack a model into LiteRT's cache file: by a library of LiteRT's that a process
// loads, which package litert knows by its digest.
package stock

import (
	"errors"
	"os"
)

// ErrTaken: LiteRT takes packed weights of the model for others, because it finds them by the buffers they were packed
// from, and one was packed in two ways that it cannot distinguish. It answers wrong then with any cache of its own.
var ErrTaken = errors.New("LiteRT takes packed weights of this model for others, with any cache: " +
	"two operators have the same weights, with other scales; load it without a cache")

// A Job is a model to be packed.
type Job struct {
	Library string   // path of LiteRT's library
	Model   string   // path of the .tflite file, or of the file that it lies in
	Offset  int64    // of the model in that file, in bytes
	Size    int64    // of the model, in bytes; 0 for the whole file
	CPU     string   // level, as of xnnpack.LimitCPU
	Into    *os.File // empty; its descriptor is given to LiteRT, and it must not be used any more
	Answers *os.File // for the bytes of what the model, without inputs, computes; nil if it is not to be run
}
