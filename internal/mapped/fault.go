package mapped

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Faultlessly is how many calls of Faultless there are at this moment.
var Faultlessly atomic.Int32

// Faultless calls do, which reads mapped memory, and returns an error if it cannot be read: the file was cut off, or
// the disk cannot give it. Otherwise that ends the process with a signal.
func Faultless(do func()) (err error) {
	Faultlessly.Add(1)
	defer Faultlessly.Add(-1)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, isFault := fault.(runtime.Error); !isFault {
				panic(fault)
			}
			err = fmt.Errorf("mapped memory cannot be read: %v", fault)
		}
	}()
	do()
	return nil
}
