package header

/*
#if defined(__has_include)
#if !__has_include(<xnnpack.h>)
#error \
XNNPACK is not found. In the directory of xpwc, eval "$(make -s env)" fetches one and sets what cgo needs. \
One of your own is given by CGO_CFLAGS=-I/its/include CGO_LDFLAGS=-L/its/lib.
#endif
#endif
*/
import "C"
