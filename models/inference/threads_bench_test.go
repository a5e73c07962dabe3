//go:build cgo

package inference_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/inference"
	"xpwc/models/tflite"
)

// BenchmarkThreads has several Runners compute a pose model at the same time, with one thread each or with more, on
// processors that have nothing else to do and on such as other threads keep busy. An operation is a Run of each Runner.
func BenchmarkThreads(b *testing.B) {
	for _, busy := range []int{0, 2} {
		for _, runners := range []int{1, 2, 4} {
			for _, threads := range []int{1, 2, 4} {
				b.Run(fmt.Sprint("busy=", busy, "/runners=", runners, "/threads=", threads), func(b *testing.B) {
					file := cacheFile(b)
					var loaded []*inference.Runner
					for range runners {
						r, err := tflite.Load(pose, file, &tflite.Options{Options: inference.Options{Threads: threads}})
						require.NoError(b, err)
						defer func() { require.NoError(b, r.Close()) }()
						loaded = append(loaded, r)
					}
					picture := sequence(256 * 256 * 3)
					stop := make(chan struct{})
					var others, group sync.WaitGroup
					for range busy {
						others.Go(func() {
							for n := 0; ; n++ {
								select {
								case <-stop:
									return
								default:
								}
							}
						})
					}
					b.ResetTimer()
					for _, r := range loaded {
						group.Go(func() {
							for range b.N {
								if _, err := r.Run(b.Context(), picture); err != nil {
									b.Error(err)
								}
							}
						})
					}
					group.Wait()
					b.StopTimer()
					close(stop)
					others.Wait()
				})
			}
		}
	}
}
